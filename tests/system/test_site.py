"""The site in a browser, from the disk: it is built as `make site` builds it, read on a telephone, and searched."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

ROOT = Path(__file__).parents[2]
TELEPHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
STATEMENT = "Gradients vanish or explode with the recurrent matrix"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    beside = shutil.which("zensical", path=str(Path(sys.executable).parent))
    generator = beside or shutil.which("zensical")
    if generator is None:
        pytest.skip("zensical is not installed: make site installs it")
    if shutil.which("npm") is None:
        pytest.skip("no npm on this machine")
    folder = tmp_path_factory.mktemp("site")
    for name in ("Makefile", "mkdocs.yml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    command = ["make", "pages", f"ZENSICAL={generator}"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine")
    with sync_api.sync_playwright() as play:
        running = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser, site):
    """Opens a page of the site; at the end no error was printed, and nothing came from elsewhere."""
    problems, fetched, contexts = [], [], []

    def open_(name, size):
        context = browser.new_context(viewport=size)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto((site / name).as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not problems
    assert [url for url in fetched if not url.startswith(("file:", "data:", "blob:"))] == []


def pages():
    return sorted(
        str(path.relative_to(ROOT / "docs").with_suffix(".html"))
        for path in (ROOT / "docs").rglob("*.md")
        if "decisions" not in path.parts
    )


def test_every_page_fits_on_a_telephone_and_names_its_pictures(opened):
    page = opened("story/index.html", TELEPHONE)
    base = page.url.removesuffix("story/index.html")
    too_wide, nameless = {}, {}
    for name in pages():
        page.goto(base + name)
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > TELEPHONE["width"]:
            too_wide[name] = wide
        missing = page.evaluate("[...document.images].filter(i => !(i.alt || '').trim()).map(i => i.src)")
        broken = page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
        if missing or broken:
            nameless[name] = missing + broken
    assert (too_wide, nameless) == ({}, {})


def test_a_slides_words_find_the_statement_and_its_verdict(opened):
    page = opened("story/index.html", DESK)
    search = page.locator("dialog[open] input").first
    for _ in range(20):  # the page listens once its script has run
        page.keyboard.press("/")
        page.wait_for_timeout(500)
        if search.is_visible():
            break
    search.fill("vanish or explode")
    found = page.locator("dialog a").filter(has_text=STATEMENT).first
    found.wait_for(state="visible")
    assert "Holds." in found.inner_text()
    found.click()
    page.wait_for_url("**/03_recurrent.html*")
    text = page.inner_text("article")
    assert "**holds**" not in text
    assert "holds" in text[text.index(STATEMENT) :].lower()
