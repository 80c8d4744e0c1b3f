"""Look at pages in Chromium: screenshots, whether anything overflows, what axe-core finds.

Every page is opened at two widths, light and dark. It fails where text reaches beyond a page, and
where axe-core (https://github.com/dequelabs/axe-core; ``npm pack axe-core`` fetches it) finds
something serious or critical. It needs Selenium, Chromium and Chromium's driver::

    python -m sphinx -W docs build/site
    python .ci/look.py build/site --axe axe-core-*.tgz --out build/screens
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from selenium import webdriver

#: What a visitor sees first, of each kind one.
PAGES = (
    "index.html",
    "start.html",
    "gallery/index.html",
    "gallery/see_a_difference/index.html",
    "guides/compare.html",
    "guides/pipeline.html",
    "explanation/promises.html",
    "reference/inference.html",
    "reference/generated/bke.inference.compare.html",
    "reference/files.html",
    "reference/command_line.html",
    "benchmarks/index.html",
)
WIDTHS, SCHEMES = (360, 1280), ("light", "dark")
LONGEST = 6000  # px of a screenshot
#: Of blocks of text those that reach beyond the page. Code and tables scroll by themselves.
CUT = """
const scrolls = (one) => one.closest("pre, table, .highlight, nav, dialog, [hidden]");
return [document.documentElement, ...document.querySelectorAll("h1, h2, h3, p, li, dt, dd")]
  .filter((one) => !scrolls(one) && one.offsetParent !== null)
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0
    || one.getBoundingClientRect().right > arguments[0] + 1)
  .slice(0, 3).map((one) => one.tagName + " " + one.textContent.trim().slice(0, 60));
"""


def axe_source(path: Path) -> str:
    """The script itself, of an npm package or as it is."""
    if path.suffix == ".js":
        return path.read_text(encoding="utf-8")
    with tarfile.open(path) as package:
        found = package.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


def browser() -> webdriver.Chrome:
    """Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or sys.exit("needs Chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def opened(driver: webdriver.Chrome, page: Path, width: int, scheme: str) -> None:
    """Open a page so wide and in such colors, as high as it is."""
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.resolve().as_uri())
    time.sleep(0.5)
    size["height"] = min(LONGEST, driver.execute_script("return document.body.scrollHeight"))
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def troubles(driver: webdriver.Chrome, width: int, axe: str | None) -> Iterator[str]:
    """What is wrong with the page that is open."""
    for told in driver.execute_script(CUT, width):
        yield f"cut: {told}"
    if axe is None:
        return
    driver.execute_script(axe)
    run = "axe.run().then(arguments[arguments.length - 1])"
    for rule in driver.execute_async_script(run)["violations"]:
        where = rule["nodes"][0]["target"][0]
        told = f"{rule['impact']}: {rule['help']} ({len(rule['nodes'])} times, first {where})"
        if rule["impact"] in ("serious", "critical"):
            yield told
        else:
            print("   ", told)


def main() -> None:
    """Look at every page, in every way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, help="the folder that Sphinx wrote")
    parser.add_argument("pages", nargs="*", type=Path, help="pages, of the site or other files")
    parser.add_argument("--axe", type=Path, help="axe.min.js, or the npm package that holds it")
    parser.add_argument("--out", type=Path, help="folder of screenshots")
    options = parser.parse_args()
    axe = axe_source(options.axe) if options.axe else None
    pages = options.pages or [options.site / one for one in PAGES]
    wrong = 0
    with browser() as driver:
        for page, width, scheme in product(pages, WIDTHS, SCHEMES):
            opened(driver, page, width, scheme)
            name = f"{page.parent.name}-{page.stem}-{width}-{scheme}"
            print(name)
            for trouble in troubles(driver, width, axe):
                wrong += 1
                print("  X", trouble)
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                driver.save_screenshot(str(options.out / f"{name}.png"))
    sys.exit(f"{wrong} things are wrong" if wrong else 0)


if __name__ == "__main__":
    main()
