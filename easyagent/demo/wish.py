"""What a prompt or a task asks for, as far as the demo's rules can read it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from easyagent.demo import vocabulary
from easyagent.demo.words import HAN


@dataclass(frozen=True, slots=True)
class Wish:
    """What a text asks for."""

    asked: bool
    """True where a verb says something that the rules can do, or where nothing but files is named."""
    bare: bool = False
    """True where nothing but files is named."""
    files: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    """File name suffixes to look for in the folders, or in the workspace."""
    mentions: bool = False
    """The text holds file names that only a list of the workspace's files can tell from its words."""
    terms: tuple[str, ...] = ()
    command: str | None = None
    not_covered: tuple[str, ...] = ()
    """Words of the text that ask for what the rules cannot do."""

    @property
    def has_targets(self) -> bool:
        """True where the text says which files it is about."""
        return bool(self.files or self.globs or self.suffixes or self.mentions)

    @property
    def covered(self) -> bool:
        """False where the rules do not know what to do."""
        return (self.asked and self.has_targets) or self.command is not None

    def and_also(self, other: Wish) -> Wish:
        """This wish with what another text adds to it."""
        return Wish(
            asked=self.asked or other.asked,
            files=_joined(self.files, other.files),
            globs=_joined(self.globs, other.globs),
            folders=_joined(self.folders, other.folders),
            suffixes=_joined(self.suffixes, other.suffixes),
            mentions=self.mentions or other.mentions,
            terms=_joined(self.terms, other.terms),
            command=self.command or other.command,
            not_covered=_joined(self.not_covered, other.not_covered),
        )


def read_wish(text: str) -> Wish:
    """Read a prompt, a list item or a task."""
    text = vocabulary.URL.sub(" ", text)
    command = vocabulary.COMMAND.search(text)
    plain = vocabulary.COMMAND.sub(" ", text)
    quoted = [next(filter(None, groups)).strip() for groups in vocabulary.QUOTED.findall(plain)]
    unquoted = vocabulary.QUOTED.sub(" ", plain)
    paths, mentions = _paths(unquoted)
    words = _words_without(unquoted, paths)
    paths = [name for name in quoted if _looks_like_path(name)] + paths
    folders = _folders(unquoted, paths)
    terms = _terms(unquoted, [name for name in quoted if not _looks_like_path(name)])
    files = tuple(dict.fromkeys(path for path in paths if not _is_glob(path) and path not in folders))
    globs = tuple(dict.fromkeys(path for path in paths if _is_glob(path)))
    named = bool(files or globs or mentions)
    bare = not vocabulary.GLUE.sub("", words)
    return Wish(
        asked=bool(vocabulary.COVERED.search(words) or terms) or bare,
        bare=bare,
        files=files,
        globs=globs,
        folders=folders,
        suffixes=() if named and not folders else _suffixes(words, folders, terms),
        mentions=mentions,
        terms=terms,
        command=command[1].strip() if command else None,
        not_covered=tuple(dict.fromkeys(word.strip() for word in vocabulary.NOT_COVERED.findall(words))),
    )


def _paths(text: str) -> tuple[list[str], bool]:
    """The paths among the words of a text, and whether a name with Han characters is glued to them."""
    paths, mentions = [], False
    for found in vocabulary.PATH_TOKEN.finditer(text):
        token = found[0].rstrip(".?-")
        after_han = found.start() > 0 and re.match(f"[{HAN}]", text[found.start() - 1]) is not None
        if after_han and token.startswith((".", "/")) and _suffix(token) in vocabulary.FILE_SUFFIXES:
            mentions = True
        elif _looks_like_path(token) and (_has_file_suffix(token) or _is_glob(token) or token.endswith("/")):
            paths.append(token)
    return paths, mentions


def _looks_like_path(name: str) -> bool:
    if _has_file_suffix(name):
        return True
    if name.startswith("*") and name.endswith("*") and "/" not in name:
        return False  # emphasis in Markdown
    return bool(re.fullmatch(r"[^\s|<>]*[/*][^\s|<>]*", name)) and bool(re.search(r"\w|\*", name))


def _has_file_suffix(name: str) -> bool:
    return "." in name[1:] and _suffix(name) in vocabulary.FILE_SUFFIXES


def _suffix(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def _is_glob(path: str) -> bool:
    return any(character in path for character in "*?[")


def _folders(text: str, paths: list[str]) -> tuple[str, ...]:
    named = [path for path in paths if not _is_glob(path) and not _has_file_suffix(path)]
    said = [first or second for first, second in vocabulary.NAMED_FOLDER.findall(text)]
    named += [word for word in said if word.lower() not in vocabulary.NO_FOLDER]
    return tuple(dict.fromkeys(named))


def _terms(text: str, quoted: list[str]) -> tuple[str, ...]:
    if not vocabulary.SEARCH.search(text):
        return ()
    return tuple(dict.fromkeys(quoted or vocabulary.SEARCH_FOR.findall(text)))


def _words_without(text: str, paths: list[str]) -> str:
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, " ")
    return text


def _suffixes(words: str, folders: tuple[str, ...], terms: tuple[str, ...]) -> tuple[str, ...]:
    tables, texts = bool(vocabulary.TABLES.search(words)), bool(vocabulary.TEXTS.search(words))
    everything = bool(vocabulary.DATA.search(vocabulary.TABLES.sub(" ", words)))
    if everything or (tables and texts):
        return vocabulary.DATA_SUFFIXES
    if tables:
        return vocabulary.TABLE_SUFFIXES
    if texts:
        return vocabulary.TEXT_SUFFIXES
    return vocabulary.DATA_SUFFIXES if folders or terms or vocabulary.FILES.search(words) else ()


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))
