"""The page in a browser: nothing foreign runs, nothing is fetched, and what it shows is what was measured."""

import shutil
import time
import xml.etree.ElementTree as ET

import pytest
import torch

from regard.views import Curves, Document, Heads, HeadSite, Matrix, Result, Table, Words

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

TOKENS = [
    "the",
    "cat",
    "<script>window.ran=1</script>",
    '"><img src=x onerror="window.ran=2">',
    "שלום",
    "😀",
    " ",
    "\n",
]
SVG = "{http://www.w3.org/2000/svg}"


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
def opened(browser, tmp_path):
    """Opens a result; at the end no error was printed, nothing was fetched, nothing foreign ran."""
    problems, fetched = [], []
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, accept_downloads=True)

    def open_(result):
        path = tmp_path / "page.html"
        result.save(path)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append("dialog"))
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_
    for page in context.pages:
        assert page.evaluate("window.ran") is None
        assert page.locator("img").count() == 0
    context.close()
    assert not problems
    assert all(url.startswith(("file:", "data:", "blob:")) for url in fetched)
    assert sum(url.startswith("file:") for url in fetched) == 1


def small():
    torch.manual_seed(1)
    raw = torch.rand(3, 8, 8).softmax(-1)
    cross = torch.rand(3, 2, 8).softmax(-1)
    kinds = {"raw": raw, "effective": raw - 0.1, "attribution": torch.randn(1, 8, 8)}
    sites = {
        "encoder.0": HeadSite(TOKENS, TOKENS, kinds),
        "encoder.1": HeadSite(TOKENS, TOKENS, {"raw": raw.flip(0)}),
        "decoder.0.cross": HeadSite(["die", "Katze"], TOKENS, {"raw": cross, "effective": cross - 0.1}),
    }
    panels = [
        Matrix("Matrix", TOKENS, ["a", "b"], torch.rand(8, 2).tolist()),
        Curves("Curves", "x", "y", {t: [(1, 2), (10, i)] for i, t in enumerate(TOKENS)}, log_x=True),
        Table("Table", ["token", "value"], [[t, 0.5] for t in TOKENS]),
        Words("Words", TOKENS, [0.1 * i - 0.3 for i in range(8)]),
        Document("Document", [0.75, 0.25], [TOKENS[:3], TOKENS[3:]], [[0.1] * 3, [0.2] * 5]),
    ]
    title = TOKENS[2]
    return Result("attention", title, panels, TOKENS[:4], heads=Heads(sites, ["raw", "effective", "attribution"]))


def shown(page, what):
    page.wait_for_selector(f"#explorer[data-shown='{what}']")


def hover(page, row, column, rows=8, columns=8):
    """The value that the tip tells for a cell of the explorer's matrix, found by scanning for the cell."""
    box = page.locator("#explorer canvas.heat").bounding_box()
    for y in range(2, int(box["height"]), 9):
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + y)
        if page.locator("#tip").is_visible() and page.locator("#tip .token").first.text_content() == row:
            break
    for x in range(2, int(box["width"]), 9):
        page.mouse.move(box["x"] + x, box["y"] + y)
        if page.locator("#tip").is_visible():
            tokens = page.locator("#tip .token").all_text_contents()
            if tokens == [row, column]:
                return float(page.locator("#tip").get_attribute("data-value"))
    raise AssertionError("no such cell")


def test_tokens_are_shown_as_text(opened):
    page = opened(small())
    shown(page, "0-raw-0")
    assert page.locator("h1").text_content() == TOKENS[2]
    page.click("[data-choice=text]")
    words = page.locator(".view.text section").first.locator(".word").all_text_contents()
    assert words == [*TOKENS[:6], "␣", "⏎"]
    assert page.locator("#panel-3 .word").all_text_contents() == words
    assert page.locator("#panel-4 .word").all_text_contents() == words
    assert page.locator("#panel-4 .weight").all_text_contents() == ["0.75", "0.25"]


def test_heads_kinds_and_sites_change_by_mouse_and_keys(opened):
    page = opened(small())
    shown(page, "0-raw-0")
    page.keyboard.press("ArrowRight")
    shown(page, "0-raw-1")
    page.click("[data-choice=effective]")
    shown(page, "0-effective-1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    shown(page, "0-effective-3")
    assert page.locator("h3.shown").text_content() == "encoder.0, mean of heads, effective"
    page.focus("[data-choice=attribution]")
    page.keyboard.press("Space")
    shown(page, "0-attribution-0")
    assert "all heads" in page.locator("h3.shown").text_content()
    page.keyboard.press("ArrowDown")  # this site has raw weights only
    shown(page, "1-raw-0")
    assert page.locator("[data-choice=effective]").is_disabled()
    page.click("[aria-label='decoder.0.cross, head 2']")
    shown(page, "2-raw-2")
    page.select_option("#head", "mean of heads")
    shown(page, "2-raw-3")
    assert page.locator("[aria-pressed=true][aria-label='decoder.0.cross, mean of heads']").count() == 1


def test_the_tip_tells_the_exact_value(opened):
    result = small()
    page = opened(result)
    shown(page, "0-raw-0")
    weights = result.heads.sites["encoder.0"].kinds
    assert hover(page, "cat", "the") == pytest.approx(float(weights["raw"][0, 1, 0]), abs=1e-9)
    page.click("[data-choice=effective]")
    page.keyboard.press("ArrowRight")
    shown(page, "0-effective-1")
    assert hover(page, "שלום", "😀") == pytest.approx(float(weights["effective"][1, 4, 5]), abs=1e-9)


def test_a_word_shows_where_it_looks_and_who_looks_at_it(opened):
    result = small()
    page = opened(result)
    page.click("[data-choice=text]")
    weights = result.heads.sites["encoder.0"].kinds["raw"][0]
    page.locator(".view.text .word").nth(1).click()
    sections = page.locator(".view.text section")
    assert sections.nth(0).locator("h4").text_content() == "Where cat looks"
    assert sections.nth(1).locator("h4").text_content() == "Who looks at cat"
    sections.nth(0).locator(".word").nth(4).hover()
    assert float(page.locator("#tip").get_attribute("data-value")) == pytest.approx(float(weights[1, 4]), abs=1e-9)
    sections.nth(1).locator(".word").nth(4).hover()
    assert float(page.locator("#tip").get_attribute("data-value")) == pytest.approx(float(weights[4, 1]), abs=1e-9)
    page.keyboard.press("Shift+ArrowRight")
    assert sections.nth(1).locator("h4").text_content() == f"Who looks at {TOKENS[2]}"
    page.click("[aria-label='decoder.0.cross, head 0']")  # two texts: one choice at a time
    shown(page, "2-raw-0")
    page.locator(".view.text section").nth(0).locator(".word").nth(5).click()
    assert page.locator(".view.text h4").first.text_content() == "Who looks at 😀"


def exported(page, button):
    with page.expect_download() as waiting:
        button.click()
    return ET.parse(waiting.value.path()).getroot()


def test_pictures_are_exported_as_svg(opened):
    page = opened(small())
    shown(page, "0-raw-0")
    matrix = exported(page, page.locator("#explorer .export"))
    texts = [element.text for element in matrix.iter(f"{SVG}text")]
    assert "שלום" in texts
    assert len(list(matrix.iter(f"{SVG}rect"))) > 64
    page.click("[data-choice=text]")
    text = exported(page, page.locator("#explorer .export"))
    assert TOKENS[2] in [element.text for element in text.iter(f"{SVG}text")]
    for number in (0, 1, 3):
        assert exported(page, page.locator(f"#panel-{number} .export")).tag == f"{SVG}svg"


def test_log_axes_and_modes_change(opened):
    page = opened(small())
    before = page.locator("#panel-1 polyline").first.get_attribute("points")
    page.get_by_label("log x").uncheck()
    assert page.locator("#panel-1 circle").count() == 16
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(50)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 19, 22)"
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.locator("#panel-1 polyline").first.get_attribute("points") != before


@pytest.mark.slow  # times mean something on a free machine only
def test_144_heads_of_512_tokens_open_and_change_quickly(opened):
    labels = [f"word{i}" for i in range(512)]
    weights = (torch.randn(12, 512, 512) * 3).softmax(-1)
    site = HeadSite(labels, labels, {"raw": weights, "effective": weights - weights.mean(-1, keepdim=True)})
    result = Result("m", "t", [], heads=Heads({f"layers.{i}": site for i in range(12)}, ["raw", "effective"]))
    page = opened(result)
    shown(page, "0-raw-0")
    assert "within 1/255" in page.locator("#explorer .note").text_content()
    times = []
    for head in range(1, 6):
        start = time.perf_counter()
        page.keyboard.press("ArrowRight")
        shown(page, f"0-raw-{head}")
        times.append(time.perf_counter() - start)
    assert sorted(times)[2] < 0.5, times
    box = page.locator("#explorer canvas.heat").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    row, column = (int(text[4:]) for text in page.locator("#tip .token").all_text_contents())
    told = float(page.locator("#tip").get_attribute("data-value"))
    assert told == pytest.approx(float(weights[5, row, column]), abs=float(weights[5].max()) / 255)
    picture = exported(page, page.locator("#explorer .export"))
    assert [x.attrib["href"][:22] for x in picture.iter(f"{SVG}image")] == ["data:image/png;base64,"]
    assert {"word0", "word511"} <= {element.text for element in picture.iter(f"{SVG}text")}


def test_without_scripts_title_statements_and_tables_are_read(browser, tmp_path):
    small().save(tmp_path / "page.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("h1").text_content() == TOKENS[2]
    assert page.locator(".statements li").count() == 4
    assert page.locator("td").nth(4).text_content() == TOKENS[2]
    assert page.locator("noscript").is_visible()
    context.close()


def test_a_notebook_frame_shows_the_page(browser, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{small()._repr_html_()}")
    page = browser.new_page()
    page.goto((tmp_path / "notebook.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("#explorer[data-shown='0-raw-0']").wait_for()
    assert frame.locator("h1").text_content() == TOKENS[2]
    page.close()
