"""Every page in a browser: no complaint, no request elsewhere, no markup of users; at 360 pixels; by keyboard."""

from __future__ import annotations

import json
import shutil
import threading

import pytest

pytest.importorskip("flask")
pytest.importorskip("waitress")
pytest.importorskip("selenium")

from selenium.webdriver import ActionChains, Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.expected_conditions import url_contains
from selenium.webdriver.support.wait import WebDriverWait
from web_worlds import HOSTILE, client_of, handlers, observed

from slurmsched.web.patience import TcpDoor

DRIVER, CHROMIUM = (shutil.which(name) for name in ("chromedriver", "chromium"))
pytestmark = pytest.mark.skipif(not (DRIVER and CHROMIUM), reason="apt-get install chromium chromium-driver")

PAGES = {
    **dict.fromkeys(("/", "/queue", "/queue?by=type", "/gpus", "/accuracy", "/report", "/jobs/2"), 200),
    "/policies": 200,
    "/try?options=--gpus%3D2&options=%3Cscript%3Ealert(1)%3C/script%3E": 200,
    "/nothing": 404,
}


@pytest.fixture(scope="module")
def served():
    """The pages of a user to whom nothing is private, over a connection."""
    made = client_of(handlers(observed(), private=lambda: False))
    server = TcpDoor.open("127.0.0.1", 0, made)
    threading.Thread(target=server.run, daemon=True).start()
    return f"http://127.0.0.1:{server.effective_port}"  # it ends with the process: no thread can stop it


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                     "--disable-dev-shm-usage", "--disable-background-networking"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_page_load_timeout(300)
    yield driver
    driver.quit()


def requests_of(browser) -> set[str]:
    """The addresses that the browser asked for since the last time."""
    found = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.add(message["params"]["request"]["url"])
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_without_a_complaint_and_asks_for_nothing_else(served, browser, page):
    requests_of(browser), browser.get_log("browser")
    browser.get(served + page)
    asked = {url for url in requests_of(browser) if not url.startswith(("data:", "chrome:", "chrome-"))}
    assert asked - {f"{served}/favicon.ico"} == {served + page}
    told = [one["message"] for one in browser.get_log("browser") if "favicon.ico" not in one["message"]]
    assert [one for one in told if PAGES[page] == 200 or "404" not in one] == []
    scripts = browser.execute_script("return document.querySelectorAll('script, img, iframe, link, object').length")
    assert scripts == 0
    assert browser.execute_script("return document.querySelector('h1').textContent")


def test_a_script_put_into_a_page_does_not_run(served, browser):
    browser.get(f"{served}/")
    browser.get_log("browser")
    browser.execute_script(
        "const one = document.createElement('script'); one.textContent = 'window.ran = 1'; document.body.append(one)"
    )
    assert browser.execute_script("return window.ran ?? 0") == 0
    assert any("Content Security Policy" in one["message"] for one in browser.get_log("browser"))


def test_hostile_names_stand_there_as_texts(served, browser):
    browser.get(f"{served}/")
    text = browser.find_element("tag name", "body").text
    assert HOSTILE.split("\x1b")[0] in text
    assert browser.execute_script("return document.querySelectorAll('main script, main img').length") == 0


@pytest.mark.parametrize("page", [page for page in PAGES if PAGES[page] == 200])
def test_at_360_pixels_a_page_is_no_wider_than_the_screen(served, browser, page):
    metrics = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.get(served + page)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_charts_have_names_and_every_link_is_reached_by_the_keyboard(served, browser):
    browser.get(f"{served}/queue")
    names = browser.execute_script("return [...document.querySelectorAll('svg')].map(one => one.ariaLabel)")
    assert names == ["GPUs over time by partition"]
    links = browser.execute_script("return document.querySelectorAll('a').length")
    reached = set()
    for _ in range(links + 8):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.add(browser.execute_script("return document.activeElement.outerHTML.slice(0, 80)"))
    assert sum(one.startswith("<a ") for one in reached) == links


def test_the_slider_of_policies_chooses_without_a_script_and_the_page_has_nothing_that_writes(served, browser):
    browser.get(f"{served}/policies?weight=0")
    assert browser.find_element("css selector", "main b").text == "as now"
    slider = browser.find_element("css selector", "input[type=range]")
    slider.send_keys(Keys.END)
    browser.find_element("css selector", "form button").click()
    WebDriverWait(browser, 60.0).until(url_contains("/policies?weight=100"))
    assert browser.find_element("tag name", "pre").text == "slurmsched policy set sjf"
    methods = browser.execute_script("return [...document.forms].map(form => form.method)")
    assert methods == ["get"]
