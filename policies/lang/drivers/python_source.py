"""Reads the text of a cell as far as magics and shell lines need it: where strings, comments, brackets and statements are."""
import sys

OPEN, CLOSE = "([{", ")]}"
NESTED_QUOTES = sys.version_info >= (3, 12)  # f"{x["a"]}"


class Token:
    """kind: name, string, comment, op, end (of a statement), magic (from a mark to the end of its line), cell."""

    def __init__(self, kind, start, end, depth, text):
        self.kind, self.start, self.end, self.depth, self.text = kind, start, end, depth, text


def end_of_string(source, at, prefix):
    """The position behind the string whose first quote stands at `at`."""
    quote = source[at]
    triple = source[at:at + 3] == quote * 3
    close = quote * 3 if triple else quote
    formatted = NESTED_QUOTES and ("f" in prefix or "t" in prefix)
    at += len(close)
    while at < len(source):
        if source.startswith(close, at):
            return at + len(close)
        if source[at] == "\\":
            at += 2
        elif source[at] == "\n" and not triple:
            return at
        elif formatted and source[at] == "{":
            at = at + 2 if source[at + 1:at + 2] == "{" else end_of_field(source, at + 1, triple)
        else:
            at += 1
    return len(source)


def end_of_field(source, at, triple):
    depth = 1
    while at < len(source):
        char = source[at]
        if char in "\"'":
            at = end_of_string(source, at, "f")
            continue
        if char == "\n" and not triple and depth == 0:
            return at
        if char in OPEN:
            depth += 1
        elif char in CLOSE:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return at


def end_of_line(source, at):
    """Of the line that begins there, with those that a backslash adds."""
    while at < len(source):
        end = source.find("\n", at)
        if end < 0:
            return len(source)
        if source[end - 1:end] != "\\":
            return end
        at = end + 1
    return len(source)


def tokens(source):
    at, depth, first, before = 0, 0, True, ""
    while at < len(source):
        char = source[at]
        if char in " \t\f\r":
            at += 1
        elif char == "\n":
            if depth == 0 and not first:
                yield Token("end", at, at + 1, depth, "\n")
                first, before = True, ""
            at += 1
        elif char == "\\" and source[at + 1:at + 2] == "\n":
            at += 2
        elif char == "#":
            end = source.find("\n", at)
            end = len(source) if end < 0 else end
            yield Token("comment", at, end, depth, source[at:end])
            at = end
        elif depth == 0 and (first and char in "%!?" or before == "=" and (char == "!" or char == "%")):
            end = end_of_line(source, at)
            yield Token("magic" if first else "value", at, end, depth, source[at:end])
            at, first, before = end, False, ""
        elif char in "\"'":
            end = end_of_string(source, at, "")
            yield Token("string", at, end, depth, source[at:end])
            at, first, before = end, False, "string"
        elif char.isalnum() or char == "_":
            end = at
            while end < len(source) and (source[end].isalnum() or source[end] == "_"):
                end += 1
            if source[end:end + 1] in ("'", '"') and source[at:end].lower() in PREFIXES:
                prefix, quote = source[at:end].lower(), end
                end = end_of_string(source, quote, prefix)
                yield Token("string", at, end, depth, source[at:end])
                before = "string"
            else:
                yield Token("name", at, end, depth, source[at:end])
                before = "name"
            at, first = end, False
        else:
            end = at + 1
            if char in "=!<>+-*/%&|^@:":
                while end < len(source) and source[end] in "=*/<>" and source[at:end + 1] in OPERATORS:
                    end += 1
            if char in OPEN:
                depth += 1
            elif char in CLOSE:
                depth = max(0, depth - 1)
            yield Token("op", at, end, depth, source[at:end])
            if char == ";" and depth == 0:
                yield Token("end", end, end, depth, ";")
                first, before = True, ""
            else:
                first, before = False, source[at:end]
            at = end
    if not first:
        yield Token("end", at, at, depth, "")


PREFIXES = {"r", "u", "b", "f", "t", "br", "rb", "fr", "rf", "tr", "rt"}
OPERATORS = {"==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "//", "//=", "**", "**=", "<<", ">>", "<<=", ">>=", "%=", "&=", "|=",
             "^=", "@=", ":=", "->", "<>"}


def ends_with(source, mark):
    """Is that the last token, comments and blank lines aside?"""
    last = ""
    for token in tokens(source):
        if token.kind not in ("comment", "end"):
            last = token.text
    return last == mark


def without_prompts(source):
    """A cell that was copied from another session, with its prompts or its indentation."""
    lines = source.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith(">>> "):
        result = []
        for line in lines:
            bare = line.lstrip()
            for prompt in (">>> ", "... "):
                if bare.startswith(prompt):
                    result.append(bare[len(prompt):])
                    break
            else:
                result.append("" if bare in (">>>", "...") else "# " + line if bare else line)
        return "\n".join(result)
    indent = first[:len(first) - len(first.lstrip(" \t"))]
    if indent:
        return "\n".join([line[len(indent):] if line.startswith(indent) else line for line in lines])
    return source


def call(name, *arguments):
    return "get_ipython().%s(%s)" % (name, ", ".join([repr(argument) for argument in arguments]))


def call_for(text, value):
    """The call that a magic or shell line stands for. value: on the right of an assignment."""
    text = text.replace("\\\n", " ").strip()
    if text.startswith("!"):
        if text.startswith("!!"):
            return call("getoutput", text[2:].strip())
        return call("getoutput" if value else "system", text[1:].strip())
    if text.startswith("?") or text.endswith("?"):
        detail = text.startswith("??") or text.endswith("??")
        return call("run_line_magic", "pinfo2" if detail else "pinfo", text.strip("?").strip())
    name, _, rest = text[1:].partition(" ")
    return call("run_line_magic", name.strip(), rest.strip())


def transform(source):
    """The cell in Python: lines stay where they are."""
    source = without_prompts(source)
    bare = source.lstrip("\n")
    above = source[:len(source) - len(bare)]
    if bare.startswith("%%") and bare[2:3].strip() not in ("", "%"):
        head, _, body = bare.partition("\n")
        name, _, line = head[2:].partition(" ")
        if body and not body.endswith("\n"):
            body += "\n"
        return above + call("run_cell_magic", name.strip(), line.strip(), body) + "\n"
    parts, at, statement, other = [], 0, None, False
    for token in tokens(source):
        if token.kind in ("magic", "value"):
            parts += [source[at:token.start], call_for(token.text, token.kind == "value"), "\n" * token.text.count("\n")]
            at = token.end
            statement = None
        elif token.kind == "end":
            statement, other = None, False
        elif token.kind == "op" and token.text == "?" and token.depth == 0 and statement is not None and not other:
            rest = end_of_line(source, token.start)
            if not source[token.start:rest].strip("? \t\r"):
                parts += [source[at:statement], call_for(source[statement:rest], False)]
                at = rest
                statement = None
        elif token.kind != "comment":
            if statement is None and at <= token.start:
                statement, other = token.start, False
            if token.kind == "op" and token.text not in ".[]*" or token.kind == "string" and token.depth == 0:
                other = True
    return "".join(parts) + source[at:]
