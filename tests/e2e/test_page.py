"""The page of a real platform in a browser."""

import json

import pytest

from tests.e2e.conftest import bring_up, take_down

pytestmark = pytest.mark.slow

LIVE = "document.querySelector('#link').dataset.state === 'live'"
SHOW = "[...document.querySelectorAll('button')].find(b => b.textContent === 'Show the form')"


@pytest.fixture
def look(browser, box):
    """Open the page of a function; in the end it must have nothing to complain of, and have asked nobody else."""
    pages = []

    def opened(name):
        pages.append(browser.page(f"{box.url}/-/#/{name}"))
        pages[-1].wait(f"document.querySelector('h1')?.textContent === '{name}' && {LIVE}")
        return pages[-1]

    yield opened
    for page in pages:
        assert page.complaints() == []
        assert all(url.startswith((box.url, "data:")) for url in page.requested())
        page.close()


def fill(page, field, text):
    page.read(f"document.querySelector('form.endpoint {field}').select()")
    page.type(text)


def test_the_root_leads_to_it(browser, box):
    page = browser.page(box.url)
    page.wait("location.pathname === '/-/' && document.querySelectorAll('.functions li').length > 5")
    page.wait("document.querySelector('#totals').textContent.includes('functions')")
    page.close()


def test_from_zero_by_the_form_and_what_is_seen_of_it(look, box):
    box.run("scale", "mean", "0")
    page = look("mean")
    page.wait("document.querySelector('.facts dd').textContent === '0'")
    assert "At zero" in page.text
    page.read(f"{SHOW}.click()")
    page.wait("document.querySelector('form.endpoint')")
    fill(page, "textarea", "[1, 2, 6]")
    page.read("document.querySelector('form.endpoint button[type=submit]').click()")
    assert page.wait("document.querySelector('.answer').textContent") == "3.0"
    assert page.wait("document.querySelector('.told').innerText.includes('x-batch-size')")
    page.wait("document.querySelector('.phases[aria-label*=fork]')")
    page.wait("document.querySelector('[aria-labelledby=instances]').innerText.includes('MiB')")
    page.wait("document.querySelector('[aria-labelledby=calls]').innerText.includes('1 call')")
    page.wait("document.querySelector('[aria-label^=\"Batch size: 1 batch\"]')")


def test_what_does_not_fit_is_said_where_it_is_written(look):
    page = look("mean")
    page.read(f"{SHOW}.click()")
    page.wait("document.querySelector('form.endpoint')")
    fill(page, "textarea", "[1, 2")
    page.read("document.querySelector('form.endpoint button[type=submit]').click()")
    page.wait("document.querySelector('form.endpoint [role=alert]').textContent.includes('is not JSON')")


def test_a_stream_is_shown_as_it_comes(look):
    page = look("ticks")
    page.read(f"{SHOW}.click()")
    page.wait("document.querySelector('form.endpoint')")
    fill(page, "input[type=number]", "3")
    page.read("document.querySelector('form.endpoint button[type=submit]').click()")
    page.wait("document.querySelector('form.endpoint [role=status]').textContent.includes('in all')")
    assert page.read("document.querySelector('.answer').textContent").count("data:") >= 3


def test_the_log_comes_as_it_is_printed(look, box):
    page = look("slow")
    answer = box.call("slow", 0)
    page.wait(f"document.querySelector('.log').innerText.includes('sleeping {answer.headers['x-request-id']}')")


def test_a_function_that_cannot_start_says_why(look, box):
    assert box.call("broken", 1).status_code == 503
    page = look("broken")
    page.wait("document.querySelector('.alarm').textContent.includes('the model is not here')")


@pytest.mark.slow
def test_a_stream_that_is_open_does_not_hold_up_the_end(browser, tmp_path):
    box = bring_up(tmp_path / "h")
    page = browser.page(f"{box.url}/-/")
    page.wait(LIVE)
    assert "No functions yet" in page.text
    with box.client() as client, client.stream("GET", "/-/events") as stream:
        told = next(line for line in stream.iter_lines() if line.startswith("data: "))
        assert json.loads(told[6:])["rows"] == []
        take_down(box)
    page.wait("document.querySelector('#link').dataset.state === 'lost'")
    page.close()
