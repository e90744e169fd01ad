"""The page in a browser, of a made-up platform."""

import re
from pathlib import Path

import pytest

from faas.platform import page as package
from faas.platform.page.access import Access
from faas.platform.page.history import Sample, Start
from tests.platform.page.conftest import instance

TOKEN = "t" * 20
STYLES = (Path(package.__file__).parent / "static" / "page.css").read_text()
HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>'


@pytest.fixture
def site(threaded):
    return threaded()


@pytest.fixture
def opened(browser):
    """Open pages, which must have nothing to complain of in the end."""
    made = []

    def page(url, **settings):
        made.append(browser.page(url, **settings))
        return made[-1]

    yield page
    for one in made:
        complaints = one.complaints()
        one.close()
        assert complaints == []


def item(name):
    return f"[...document.querySelectorAll('.functions a')].find(a => a.querySelector('b').textContent === '{name}')"


def test_without_functions_it_says_how_to_have_one(site, opened):
    page = opened(f"{site.url}/-/")
    page.wait("document.querySelector('#link').dataset.state === 'live'")
    page.wait("document.querySelector('.note')")
    assert "faas deploy --local" in page.text


def test_functions_come_change_and_go_as_they_do(site, opened):
    site.do(lambda s: s.source.add("alpha"))
    page = opened(f"{site.url}/-/")
    page.wait(f"{item('alpha')}?.innerText.includes('at zero')")
    site.do(lambda s: s.source.add("beta", ready=2, instances=2, requests=12345))
    page.wait(f"{item('beta')}?.innerText.includes('2 ready')")
    assert "12,345" in page.text
    site.do(lambda s: s.source.add("beta", failure="RuntimeError: no model"))
    page.wait(f"{item('beta')}?.innerText.includes('RuntimeError: no model')")
    site.do(lambda s: s.source.rows.pop("alpha"))
    page.wait(f"!{item('alpha')}")
    assert {address.split("/")[2] for address in page.requested() if address.startswith("http")} == {
        site.url.removeprefix("http://")
    }


def test_what_users_write_is_never_markup(site, opened):
    def change(s):
        s.source.add("f", failure=HOSTILE, target=HOSTILE, tags={HOSTILE: "r1"}, reason=HOSTILE, snapshot=None)
        s.source.logs["f"].write("f-1", HOSTILE, HOSTILE * 20)

    site.do(change)
    page = opened(f"{site.url}/-/#/f")
    page.wait("document.querySelectorAll('.line').length === 2")
    assert page.read("document.querySelectorAll('img, main script').length") == 0
    assert page.text.count("<img src=x") >= 4
    assert page.read("document.title") == "f · faas"


def crowd(s):
    now = int(s.history.clock())
    samples = [Sample(now - 100 + t, 1, t % 3, 0, t % 5, 5 + t % 5, 40 * t, t) for t in range(100)]
    starts = tuple(
        Start(f"f-{n}", "r1", "fork", now - 60.0 * n, 0.1 * n + 0.06, {"fork": 0.004, "thaw": 0.05}) for n in (2, 1)
    )
    for n in range(30):
        s.source.add(f"model-{n}-of-a-rather-long-name-that-does-not-break", requests=n)
    instances = [instance("f-1"), instance("f-2", state="starting", pid=None)]
    s.source.add("f", *instances, ready=1, instances=2, failure="word" * 100, target="/a" * 100)
    s.source.logs["f"].write("f-1", "x" * 5000, "word " * 60, "")
    s.remember("f", *samples, starts=starts)


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_any_width_by_day_and_night(site, opened, dark):
    site.do(crowd)
    for path, sign in (("", ".functions li"), ("#/f", ".line")):
        page = opened(f"{site.url}/-/{path}", dark=dark)
        page.wait(f"document.querySelector('{sign}')")
        paper = page.read("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", paper))) < 3 * 64) is dark
        for width in (320, 400, 800, 1400):
            page.resize(width, 900)
            page.wait(f"innerWidth === {width}")
            assert page.read("document.documentElement.scrollWidth") <= width


def test_the_filter_appears_with_many_functions(site, opened):
    site.do(crowd)
    page = opened(f"{site.url}/-/")
    page.wait("document.querySelectorAll('.functions li').length === 31")
    page.read("document.querySelector('nav input').focus()")
    page.type("MODEL-17-")
    page.wait("document.querySelectorAll('.functions li').length === 1")


def test_starts_are_told_with_their_phases(site, opened):
    site.do(crowd)
    page = opened(f"{site.url}/-/#/f")
    page.wait("document.querySelectorAll('.phases').length === 3")
    bars = page.read("[...document.querySelectorAll('.phases')].map(bar => bar.getAttribute('aria-label'))")
    assert bars[1:] == ["fork 4 ms, thaw 50 ms, rest 106 ms", "fork 4 ms, thaw 50 ms, rest 206 ms"]
    assert "so far" in page.text


def test_all_of_it_by_keyboard(site, opened):
    site.do(crowd)
    page = opened(f"{site.url}/-/")
    page.wait("document.querySelector('.functions li')")
    for _ in range(20):
        page.press("Tab")
        if page.read("document.activeElement.matches('.functions a')"):
            break
    assert page.read("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.read("document.activeElement.getAttribute('href')") == "#/f"
    page.press("Enter")
    page.wait("document.querySelector('h1')?.textContent === 'f'")
    assert page.read("document.activeElement.id") == "main"
    page.wait("document.querySelector('.area')")
    for _ in range(80):
        page.press("Tab")
        if page.read("document.activeElement.matches('svg.chart')"):
            break
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    page.wait("document.activeElement.getAttribute('aria-label').includes('2 seconds ago')")
    page.press("Escape")
    page.wait("document.activeElement.getAttribute('aria-label').includes(', now')")
    unnamed = page.read(
        "[...document.querySelectorAll('button, input, a, [tabindex=\"0\"]')].filter(one => one.offsetParent && !("
        "one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).map(one => one.outerHTML)"
    )
    assert unnamed == []


def test_a_function_that_is_not_there(site, opened):
    page = opened(f"{site.url}/-/#/nobody")
    page.wait("document.querySelector('h1')?.textContent === 'No such function'")
    site.do(lambda s: s.source.add("nobody"))
    page.wait("document.querySelector('h1')?.textContent === 'nobody'")


def test_pause_stops_the_story_and_resuming_catches_up(site, opened):
    site.do(lambda s: s.source.add("f"))
    page = opened(f"{site.url}/-/#/f")
    page.wait("document.querySelector('.facts')")
    page.read("document.querySelector('#pause').click()")
    assert page.read("document.querySelector('#pause').getAttribute('aria-pressed')") == "true"
    site.do(lambda s: s.source.logs["f"].write("f-1", "meanwhile"))
    page.read("document.querySelector('#pause').click()")
    page.wait("document.querySelector('.line')?.innerText.includes('meanwhile')")


def test_it_comes_back_with_the_platform(site, browser):
    site.do(lambda s: s.source.add("f"))
    page = browser.page(f"{site.url}/-/#/f")
    page.wait("document.querySelector('#link').dataset.state === 'live'")
    page.read("window.kept = true")
    site.restart()
    site.do(lambda s: s.source.add("f", requests=77))
    page.wait("document.querySelector('.facts')?.innerText.includes('77')")
    assert page.read("window.kept && document.querySelector('#link').dataset.state") == "live"
    page.close()


def test_elsewhere_it_asks_for_the_token(threaded, browser):
    site = threaded(Access(is_loopback=False, token=TOKEN))
    site.do(lambda s: s.source.add("f"))
    page = browser.page(f"{site.url}/-/")
    page.wait("document.activeElement.id === 'token'")
    assert not page.read("document.querySelector('.functions li')")
    page.type("wrong")
    page.press("Enter")
    page.wait("document.querySelector('[role=alert]')")
    page.wait("document.activeElement.id === 'token'")
    page.type(TOKEN)
    page.press("Enter")
    page.wait("document.querySelector('.functions li')")
    page.close()


def test_without_a_token_it_says_why_it_shows_nothing(threaded, browser):
    page = browser.page(f"{threaded(Access(is_loopback=False)).url}/-/")
    page.wait("document.querySelector('h1')?.textContent === 'Not shown here'")
    assert "has no token" in page.text
    page.close()


def luminance(colour):
    """Return the relative luminance of a colour, as WCAG 2 defines it."""
    digits = colour if len(colour) == 6 else "".join(digit * 2 for digit in colour)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("night", [False, True])
def test_colours_can_be_told_apart(night):
    rules = re.findall(r":root \{(.*?)\}", STYLES, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): #(\w+);", rules[night]))
    for text in ("ink", "soft", "accent", "bad", "good"):
        assert contrast(colours[text], colours["paper"]) >= 4.5, text
    for text in ("ink", "soft", "bad"):
        assert contrast(colours[text], colours["panel"]) >= 4.5, text
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    assert contrast(colours["bad"], colours["bad-panel"]) >= 4.5
    for mark in ("ready", "starting", "draining", "busy", "failed", "fork", "thaw", "setup", "warmup"):
        assert contrast(colours[mark], colours["paper"]) >= 2.9, mark
