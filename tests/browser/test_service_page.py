"""The search page of the service in a real browser."""

import socket
import threading
import time

import pytest
import uvicorn

from report_models import NASTY, bundle, draw, named
from tribit import Recommender
from tribit.serve.app import create_app
from tribit.serve.settings import ServiceSettings

pytestmark = pytest.mark.browser
CSS = "css selector"
#: Names that a text box holds and a driver reads: no line breaks, no lone surrogates.
TYPED = NASTY[:6]
#: The widest element, in pixels beyond the window.
OVERFLOW = "return document.documentElement.scrollWidth - window.innerWidth"
#: Names in the list.
NAMES = "return [...document.querySelectorAll('#list > li > .name')].map(each => each.textContent)"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Address of a service and its recommender, whose names have markup."""
    path = tmp_path_factory.mktemp("service") / "model.tribit"
    bundle(named(draw((20, 16), density=0.6), TYPED)).save(path)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(
            uvicorn.Config(create_app(ServiceSettings(str(path))), log_level="error", ws="none")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/", Recommender.load(path)
        server.should_exit = True
        thread.join(10)


def wait_for(driver, selector, text=""):
    """Return the elements of a selector when one has the text."""
    for _ in range(100):
        found = driver.find_elements(CSS, selector)
        if found and any(text in each.text for each in found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{selector}: {[each.text for each in found]}")


def search(driver, row):
    box = driver.find_element(CSS, "input[name=row]")
    driver.execute_script("arguments[0].value = arguments[1]", box, row)
    driver.find_element(CSS, "button").click()


@pytest.mark.parametrize(("width", "dark"), [(1300, False), (400, True)])
def test_a_search_shows_the_list_with_reasons(service, show, width, dark):
    address, recommender = service
    driver = show(address, width, dark=dark)
    driver.get_log("browser")
    rows = recommender.axes_.rows.ids
    for row in [*TYPED, rows[-1]]:
        search(driver, row)
        expected = [str(each) for each in recommender.recommend([row], level=None).columns[0]]
        wait_for(driver, "#state", "Recommendations for" if expected else "left to recommend")
        assert driver.execute_script(NAMES) == expected
    driver.find_element(CSS, "#list summary").click()
    wait_for(driver, "#list details p", "change the probability most")
    reasons = driver.find_elements(CSS, "#list details li")
    assert 1 <= len(reasons) <= 5
    assert all(each.text.endswith("points") for each in reasons)
    assert driver.execute_script(OVERFLOW) <= 0
    assert not driver.find_elements(CSS, "#list img, #list script, #list b")
    assert driver.get_log("browser") == []


def test_an_unknown_id_is_an_error_and_an_address_is_a_search(service, show):
    address, _ = service
    driver = show(f"{address}?row=nobody-at-all")
    wait_for(driver, "#state.error", "not fitted on the row id 'nobody-at-all'")
    assert not driver.find_elements(CSS, "#list li")
    background = "return getComputedStyle(document.body).backgroundColor"
    light = driver.execute_script(background)
    assert show(f"{address}docs", 400, dark=True).execute_script(background) != light
    assert driver.execute_script(OVERFLOW) <= 0
    driver.get_log("browser")
