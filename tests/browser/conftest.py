"""A real browser without a window, where there is one: Debian's chromium, driven by selenium."""

import shutil

import pytest

#: What is missing is said in one sentence: under ``make test`` browsers are no duty.
HOW = "get one with: apt-get install chromium chromium-driver; pip install 'tribit[browser]'; make test-browser"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")


@pytest.fixture(scope="session")
def browser():
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ModuleNotFoundError:
        pytest.skip(f"selenium is not installed; {HOW}")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip(f"there is no chromium with its driver; {HOW}")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser):
    """Open a page at a width, light or dark; returns the driver."""

    def call(path, width=1300, *, dark=False):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(path.as_uri())
        return browser

    return call
