"""What mkdocs does not do by itself to make a site of documents that are read in the source, too.

README.md is the first page. Files outside docs/ to which documents link come along, at their places. A document
that `nav` does not name, a link to a heading that is not there and a list that would become a paragraph are warnings:
errors with --strict.
"""

import html.parser
import logging
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)]*)?\))")
# Of a list without an empty line above it, Markdown makes a part of the paragraph.
LOST_LIST = re.compile(r"<p>(?:(?!</p>).)*\n- ", re.DOTALL)

log = logging.getLogger("mkdocs.softhca")
pages = {}  # by URL: its headings, and its links


def site_path(page_path, link):
    """Where the site has what a link of a page leads to. The site has docs/ and the source's root in one folder."""
    # README.md is at the root of the source, all other pages are in docs/ or, unmoved, elsewhere in the source.
    place = page_path if (ROOT / page_path).exists() else posixpath.join("docs", page_path)
    place = "README.md" if page_path == "index.md" else place
    target = posixpath.normpath(posixpath.join(posixpath.dirname(place), link))
    return "index.md" if target == "README.md" else target.removeprefix("docs/")


def sources():
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def on_files(files, config):
    readme = File("README.md", str(ROOT), config.site_dir, config.use_directory_urls)
    readme.src_uri = "index.md"
    readme.abs_src_path = str(ROOT / "README.md")  # which later versions of mkdocs take from src_uri
    files.append(readme)
    wanted = set()
    for source in sources():
        page = "index.md" if source.name == "README.md" else source.name
        wanted |= {site_path(page, link) for _, link, _ in LINK.findall(source.read_text(encoding="utf-8"))}
    for path in sorted(wanted):
        if files.get_file_from_path(path) is None and (ROOT / path).is_file():
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    named = set(re.findall(r"[\w-]+\.md", str(config.nav)))
    for file in files.documentation_pages():
        if "/" not in file.src_uri and file.src_uri not in named:
            log.warning("docs/%s is not in nav of deploy/site/mkdocs.yml", file.src_uri)
    return files


def on_page_markdown(markdown, page, config, files):
    here = posixpath.dirname(page.file.src_uri)

    def moved(match):
        target = site_path(page.file.src_uri, match.group(2))
        if files.get_file_from_path(target) is None:
            return match.group()
        return match.group(1) + posixpath.relpath(target, here or ".") + match.group(3)

    return LINK.sub(moved, markdown)


class Anchors(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links = set(), []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.add(found.get("id"))
        if tag == "a" and "#" in (found.get("href") or "") and "//" not in found["href"]:
            self.links.append(found["href"])


def on_page_content(content, page, config, files):
    anchors = Anchors()
    anchors.feed(content)
    pages[page.url] = anchors
    if found := LOST_LIST.search(content):
        log.warning("%s: no empty line above a list: %s", page.file.src_uri, found.group().splitlines()[-2][:70])
    return content


def on_post_build(config):
    for url, anchors in pages.items():
        for link in anchors.links:
            path, heading = link.split("#", 1)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(url), path)) if path else url
            if heading and target in pages and heading not in pages[target].ids:
                log.warning("%s: there is no heading for the link %s", url, link)
