"""The page of a report in a real browser: no errors, controls that work, by pointer and by keys, on any screen."""

import csv
import json

import numpy as np
import pytest

from report_models import NASTY, bundle, draw, named
from tribit import Recommender
from tribit.report import write_report

pytestmark = pytest.mark.browser
CSS, ID = "css selector", "id"
SCREENS = [(1300, False), (1300, True), (400, False), (400, True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def page(folder):
    """A search with mixtures, so that every chart is there."""
    path = folder / "report.html"
    report = write_report(Recommender(random_state=0).fit(draw((60, 40), 0.5)), path)
    assert report.facts["search"]["view"] is not None
    return path, report


@pytest.fixture(scope="module")
def nasty(folder):
    path = folder / "nasty.html"
    write_report(bundle(named(draw((20, 16), density=0.6), NASTY)), path, title="<b>title</b>")
    return path


@pytest.fixture(scope="module")
def likes(folder):
    path, seen = folder / "likes.html", draw((30, 25))
    seen = seen.take(np.flatnonzero(seen.labels > 0))
    write_report(Recommender(random_state=0).fit(seen), path)
    return path


#: Ends when the page has been laid out and drawn again.
LATER = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50)))"


def errors(driver):
    return [each for each in driver.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]


def luminance(colour):
    parts = [float(each) / 255 for each in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_the_page_opens_without_errors_and_fits(show, page, width, dark):
    driver = show(page[0], width, dark=dark)
    assert errors(driver) == []
    wide = driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    for holder in driver.find_elements(CSS, ".chart"):
        assert holder.find_elements(CSS, "svg"), holder.get_attribute("id")
    # Texts of charts stay inside of the screen.
    ends = driver.execute_script(
        "return [...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect())"
        ".map(r => [r.left, r.right])"
    )
    assert all(left >= -1 and right <= width + 1 for left, right in ends)


def test_bars_that_do_not_start_at_zero_have_an_axis(show, page):
    """Lengths of bars are proportional to the distance from the start of the axis, which its first number states."""
    driver = show(page[0])
    scores = [each["score"] for each in page[1].facts["search"]["families"]]
    bars = driver.find_elements(CSS, "#chart-families svg rect")
    ticks = driver.find_elements(CSS, "#chart-families svg .tick")
    widths = [float(bar.get_attribute("width")) for bar in bars]
    start = float(ticks[0].text) if ticks else 0.0
    assert bool(ticks) == (min(scores) >= 0.7 * max(scores))
    ratios = [width / (score - start) for width, score in zip(widths, scores, strict=True)]
    assert max(ratios) == pytest.approx(min(ratios), rel=1e-3)
    assert min(widths) < 0.8 * max(widths) or max(scores) == min(scores)


@pytest.mark.parametrize("dark", [False, True])
def test_words_can_be_read_on_their_ground(show, page, dark):
    driver = show(page[0], dark=dark)
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (luminance(ground) < 0.1) == dark
    for query in ("p", ".note", "figcaption", "nav a", "svg text", ".liked", "caption"):
        each = driver.find_elements(CSS, query)
        if not each:
            continue
        name = "fill" if query.startswith("svg") else "color"
        colour = driver.execute_script(f"return getComputedStyle(arguments[0]).{name}", each[0])
        light, low = sorted([luminance(colour), luminance(ground)], reverse=True)
        assert (light + 0.05) / (low + 0.05) >= 4.5, query  # WCAG 2, level AA


def test_the_slider_moves_the_mark_the_numbers_and_the_list(show, page):
    path, report = page
    facts = report.facts["trade_off"]
    driver = show(path)
    slider = driver.find_element(ID, "weight")
    assert slider.get_attribute("type") == "range"

    def now():
        mark = driver.find_element(ID, "trade-off-mark")
        items = driver.find_elements(CSS, "#list-now li bdi")
        return (
            driver.find_element(ID, "weight-now").text,
            driver.find_element(ID, "trade-off-now").text,
            (mark.get_attribute("cx"), mark.get_attribute("cy")),
            [each.text for each in items],
        )

    first = now()
    assert first[0] == "1"
    slider.send_keys("\ue010")  # End
    last = now()
    assert last[0] == "8"
    found = facts["reports"][-1]
    assert last[1].startswith(
        f"{found['likes_shown']} test likes found and {found['dislikes_shown']}"
    )
    assert last[2] != first[2]
    assert last[3] == [each[0] for each in facts["lists"][-1][0]]
    chooser = driver.find_element(ID, "list-row")
    chooser.find_elements(CSS, "option")[1].click()
    assert now()[3] == [each[0] for each in facts["lists"][-1][1]]
    assert errors(driver) == []


def test_a_click_on_a_point_lists_those_like_it(show, page):
    path, report = page
    facts = report.facts["columns"]
    driver = show(path)
    marks = driver.find_elements(CSS, "#chart-map-columns .mark")
    assert len(marks) == facts["drawn"]
    driver.execute_script(
        "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))",
        driver.find_element(CSS, "#chart-map-columns [data-number='3']"),
    )
    listed = [each.text for each in driver.find_elements(CSS, "#near-columns li bdi")]
    assert listed == [facts["names"][k] for k in facts["near"][3]]
    finder = driver.find_element(ID, "find-columns")
    finder.send_keys(facts["names"][5], "\ue007")  # Enter
    listed = [each.text for each in driver.find_elements(CSS, "#near-columns li bdi")]
    assert listed == [facts["names"][k] for k in facts["near"][5]]
    assert errors(driver) == []


@pytest.fixture(scope="module")
def films(folder):
    """Films with titles, a few of which are on the map."""
    path = folder / "films.html"
    titles = ["Star Wars (1977)", "Return of the Jedi (1983)", "Star Trek: Generations", "Amélie"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tribit.report.facts.MAX_POINTS", 5)
        report = write_report(bundle(named(draw((20, 16), density=0.6), titles)), path)
    return path, report


@pytest.mark.parametrize(
    ("text", "keys", "listed", "chosen"),
    [
        ("star wars", "\ue007", ["Star Wars (1977)"], "Star Wars (1977)"),
        (
            "STAR",
            "\ue015\ue015\ue007",
            ["Star Wars (1977)", "Star Trek: Generations"],
            "Star Trek: Generations",
        ),
        ("jedi return", "\ue007", ["Return of the Jedi (1983)"], "Return of the Jedi (1983)"),
        ("amel", "\ue007", ["Amélie"], "Amélie"),
        ("nothing like it", "\ue007", [], None),
    ],
)
def test_names_are_found_by_their_parts_on_the_map_or_not(show, films, text, keys, listed, chosen):
    path, report = films
    facts = report.facts["columns"]
    assert (facts["drawn"], facts["searched"]) == (5, 16)
    driver = show(path)
    assert len(driver.find_elements(CSS, "#chart-map-columns .mark")) == 5
    finder = driver.find_element(ID, "find-columns")
    finder.send_keys(text)
    found = [each.text for each in driver.find_elements(CSS, "#matches-columns li")]
    assert set(found) == set(listed)
    assert (finder.get_attribute("aria-expanded") == "true") == bool(listed)
    finder.send_keys(keys)
    panel = driver.find_element(ID, "near-columns")
    if chosen is None:
        assert not panel.text
        assert "No match" in driver.find_element(ID, "found-columns").text
        return
    if len(listed) > 1:
        chosen = found[1]
    assert panel.text.startswith(f"Most similar to {chosen}")
    near = [each.text for each in panel.find_elements(CSS, "li bdi")]
    assert near == [facts["names"][k] for k in facts["near"][facts["names"].index(chosen)]]
    assert driver.find_elements(CSS, "#chart-map-columns .mark.kept")
    assert not driver.find_element(ID, "matches-columns").is_displayed()
    assert errors(driver) == []


@pytest.mark.parametrize("width", [1300, 400])
def test_the_list_of_any_row_is_looked_up_with_its_reasons(show, page, width):
    path, report = page
    facts = report.facts["lookup"]
    driver = show(path, width)
    driver.find_element(ID, "find-lists").send_keys("person 37", "\ue007")
    panel = driver.find_element(ID, "list-of-row")
    k = facts["rows"].index("person 37")
    assert panel.text.startswith(
        f"For person 37 {facts['likes'][k]} likes and {facts['dislikes'][k]} "
    )
    items = panel.find_elements(CSS, "li")
    assert len(items) == 10
    for item, column, likely, why in zip(
        items, facts["columns"][k], facts["probabilities"][k], facts["reasons"][k], strict=True
    ):
        first, *reasons = [each.text for each in item.find_elements(CSS, "bdi")]
        assert first == facts["names"][column]
        assert f" {100 * likely:.0f}%" in item.text
        assert reasons == [facts["names"][j if j >= 0 else -1 - j] for j, _ in why]
        for (j, points), name in zip(why, reasons, strict=True):
            assert f"{'liked' if j >= 0 else 'disliked'} {name} (+{points:.1f} points)" in item.text
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert errors(driver) == []


def test_a_suggestion_is_chosen_by_a_click(show, films):
    driver = show(films[0], 400)
    driver.find_element(ID, "find-columns").send_keys("wars")
    item = driver.find_element(CSS, "#matches-columns li")
    driver.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", item
    )
    item.click()
    assert "Most similar to Star Wars (1977)" in driver.find_element(ID, "near-columns").text


def test_a_map_names_its_largest_points_and_zooms(show, page):
    from selenium.webdriver import ActionChains

    path, report = page
    facts = report.facts["columns"]
    driver = show(path)
    chart = driver.find_element(ID, "chart-map-columns")
    labels = [each.text for each in chart.find_elements(CSS, ".labels text")]
    largest = [facts["names"][k] for k in np.argsort(-np.asarray(facts["counts"]), kind="stable")]
    assert len(labels) >= 15
    assert set(labels) <= set(largest[:20])
    # A pointer beside a point reaches it.
    mark = chart.find_element(CSS, ".mark[data-number='3']")
    driver.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", mark
    )
    ActionChains(driver).move_to_element_with_offset(mark, 1, 1).click().perform()
    assert facts["names"][3] in driver.find_element(ID, "hint").text
    assert facts["names"][3] in driver.find_element(ID, "near-columns").text
    for _ in range(4):
        driver.execute_script("document.getElementById('zoom-in-columns').click()")
    marks = chart.find_elements(CSS, ".mark")
    assert 1 <= len(marks) < facts["drawn"]
    assert chart.find_elements(CSS, ".mark.kept")
    driver.execute_script("document.getElementById('zoom-whole-columns').click()")
    assert len(chart.find_elements(CSS, ".mark")) == facts["drawn"]
    assert errors(driver) == []


def test_all_numbers_are_downloaded(show, page, tmp_path):
    from selenium.webdriver.support.ui import WebDriverWait

    path, report = page
    driver = show(path)
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    for ending in ("json", "csv"):
        driver.execute_script(f"document.getElementById('download-{ending}').click()")
        WebDriverWait(driver, 5).until(
            lambda _, name=f"report.{ending}": (tmp_path / name).exists()
        )
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert set(found) == set(report.facts)
    assert found["data"]["likes"] == report.facts["data"]["likes"]
    with (tmp_path / "report.csv").open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["section", "row", "measure", "value"]
    assert {len(line) for line in lines} == {4}
    table = {tuple(line[:3]): line[3] for line in lines}
    assert len(table) == len(lines)
    assert table["data", "", "likes"] == str(report.facts["data"]["likes"])
    for each in report.facts["measures"]["rows"]:
        assert float(table["measures", each["title"], "rows.value"]) == pytest.approx(
            each["value"], rel=1e-4
        )
    for weight, each in zip(
        found["trade_off"]["weights"], report.facts["trade_off"]["reports"], strict=True
    ):
        key = ("trade_off", f"{weight:g}", "reports.likes_shown")
        assert int(table[key]) == each["likes_shown"]
    lookup, name = report.facts["lookup"], report.facts["rows"]["names"][3]
    first = lookup["names"][lookup["columns"][5][0]]
    assert table["lookup", f"{lookup['rows'][5]} / 1", "lists.column"] == first
    assert float(table["rows", name, "x"]) == pytest.approx(report.facts["rows"]["x"][3])
    near = report.facts["rows"]["names"][report.facts["rows"]["near"][3][0]]
    assert table["rows", f"{name} / 1", "near"] == near
    assert errors(driver) == []


def test_a_pointer_over_a_mark_shows_its_name(show, page):
    from selenium.webdriver import ActionChains

    driver = show(page[0])
    mark = driver.find_element(CSS, "#chart-candidates .mark.chosen")
    driver.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", mark
    )
    ActionChains(driver).move_to_element(mark).perform()
    hint = driver.find_element(ID, "hint")
    assert hint.is_displayed()
    assert page[1].facts["search"]["chosen"] in hint.text
    mark.click()
    assert page[1].facts["search"]["chosen"] in driver.find_element(ID, "candidate-now").text


def test_marks_are_reached_by_keys(show, page):
    path, report = page
    driver = show(path)
    for chart in ("candidates", "mixtures", "map-columns", "map-rows"):
        stops = driver.find_elements(CSS, f"#chart-{chart} [tabindex='0']")
        assert len(stops) == 1, chart
    first = driver.find_element(CSS, "#chart-candidates [tabindex='0']")
    first.send_keys("\ue014")  # right
    second = driver.switch_to.active_element
    assert second.get_attribute("data-number") == "1"
    second.send_keys("\ue007")
    panel = driver.find_element(ID, "candidate-now").text
    assert report.facts["search"]["candidates"][1]["settings"] in panel
    # The chart was drawn again, and the focus is where it was.
    assert driver.switch_to.active_element.get_attribute("data-number") == "1"


def test_the_first_stop_skips_the_contents(show, page):
    driver = show(page[0])
    driver.find_element(CSS, "body").send_keys("\ue004")  # Tab
    skip = driver.switch_to.active_element
    assert skip.text == "Skip to the summary"
    assert skip.is_displayed()
    assert skip.rect["x"] >= 0


def test_a_users_words_run_nothing(show, nasty):
    driver = show(nasty)
    assert errors(driver) == []
    assert driver.find_elements(CSS, "img, h1 b, bdi script") == []
    marks = driver.find_elements(CSS, "#chart-map-columns .mark")
    for k in range(len(marks)):
        driver.execute_script(
            "document.querySelector(`#chart-map-columns [data-number='${arguments[0]}']`)"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))",
            k,
        )
    assert driver.find_elements(CSS, "#near-columns script, #near-columns img") == []
    # Whatever a script would have been called by, the policy of the page lets none in.
    driver.execute_script(
        "window.ran = 0; const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s)"
    )
    assert driver.execute_script("return window.ran") == 0
    driver.get_log("browser")  # the refusal is logged


@pytest.mark.parametrize("width", [1300, 400])
def test_pages_of_likes_alone_and_of_odd_names_fit(show, likes, nasty, width):
    for path in (likes, nasty):
        driver = show(path, width)
        assert errors(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_chart_is_drawn_again_at_another_width(show, page):
    driver = show(page[0], 1300)
    query = "return document.querySelector('#chart-map-columns svg').getBoundingClientRect().width"
    wide = driver.execute_script(query)
    size = {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.set_script_timeout(5)
    driver.execute_async_script(LATER)
    assert driver.execute_script(query) < min(wide, 400)


def test_a_chart_that_is_hidden_is_drawn_when_it_is_shown_again(show, page):
    driver = show(page[0], 900)
    drawn = driver.find_elements(CSS, "svg rect")
    driver.execute_script("document.querySelector('main').style.display = 'none'")
    show_width = {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", show_width)
    driver.execute_async_script(LATER)
    driver.execute_script("document.querySelector('main').style.display = ''")
    driver.execute_async_script(LATER)
    assert errors(driver) == []
    assert len(driver.find_elements(CSS, "svg rect")) == len(drawn)
    widest = driver.execute_script(
        "return Math.max(...[...document.querySelectorAll('.chart svg')].map(e => e.clientWidth))"
    )
    assert widest <= 700


def test_every_link_of_the_contents_can_be_seen_on_a_phone(show, page):
    driver = show(page[0], 400)
    for link in driver.find_elements(CSS, "nav a"):
        assert link.rect["x"] + link.rect["width"] <= 400
