"""What mkdocs does not do by itself to make a site of documents that are read in the source, too.

README.md is the first page. Files outside docs/ to which documents link come along, at their places. Each block of
code gets a title and a class, which say whether it is commands, their output, a file or a program.

Warnings, which are errors with --strict: a document that `nav` does not name, a link to a heading that is not there,
a list that would become a paragraph, a block of code without a language, and text that became a tag, such as <tenant>.
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
# The comments above blocks are explained in tests/system/deployment/run_document.py.
BLOCK = re.compile(r"^(?:<!-- (?P<mark>.*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"sh": "commands", "text": "output", "toml": "file", "ini": "file", "yaml": "file", "cmake": "file", "meson": "file",
         "c": "program", "python": "program"}
TITLES = {"commands": "Commands", "output": "Output", "file": "File", "program": "Program"}
# All tags that Markdown and the theme's extensions make.
TAGS = set("a blockquote br button code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr img input label li nav ol p pre s "
           "span strong sub summary sup table tbody td th thead tr ul".split())
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
    files.append(File("site.css", str(ROOT / "deploy" / "site"), config.site_dir, config.use_directory_urls))
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


def titled(match, page):
    mark, language = match["mark"] or "", match["language"]
    if language not in KINDS:
        log.warning("%s: a block of code has the language '%s', which is none of: %s", page.file.src_uri, language,
                    ", ".join(KINDS))
        return match.group()
    kind = KINDS[language]
    title = TITLES[kind]
    if mark.startswith("run: server"):
        title = "Commands, in a terminal of their own"
    elif found := re.fullmatch(r"file: (.+)", mark):
        title = f"File {found[1]}"
    return f'``` {{.{language} .{kind} title="{title}"}}\n{match["text"]}```'


def on_page_markdown(markdown, page, config, files):
    markdown = BLOCK.sub(lambda match: titled(match, page), markdown)
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
        self.ids, self.links, self.strange = set(), [], set()

    def handle_starttag(self, tag, attrs):
        if tag not in TAGS:
            self.strange.add(tag)
        found = dict(attrs)
        self.ids.add(found.get("id"))
        if tag == "a" and "#" in (found.get("href") or "") and "//" not in found["href"]:
            self.links.append(found["href"])


def on_page_content(content, page, config, files):
    anchors = Anchors()
    anchors.feed(content)
    pages[page.url] = anchors
    for tag in sorted(anchors.strange):
        log.warning("%s: <%s> is a tag; where it is text, write it as code", page.file.src_uri, tag)
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
