"""A real browser without a window, where there is one: Debian's chromium, driven by selenium."""

import shutil
from importlib.util import find_spec

import pytest

HOW = "get one with: apt-get install chromium chromium-driver; pip install 'tribit[browser]'; make test-browser"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")


def pytest_collection_modifyitems(items):
    """Skip where something is missing, and say how to get it: under ``make test`` browsers are no duty."""
    missing = None
    if find_spec("selenium") is None:
        missing = "selenium is not installed"
    elif CHROMIUM is None or DRIVER is None:
        missing = "there is no chromium with its driver"
    for item in items:
        if missing is not None and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=f"{missing}; {HOW}"))


@pytest.fixture(scope="session")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

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
    """Open a page (a file or an address) at a width, light or dark; returns the driver."""

    def call(path, width=1300, *, dark=False):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(path if isinstance(path, str) else path.as_uri())
        return browser

    return call
