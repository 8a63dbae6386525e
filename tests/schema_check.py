#!/usr/bin/env python3
"""Checks a JSON document against a JSON Schema, without anything but Python.

    python3 tests/schema_check.py SCHEMA FILE        exit 0: valid; 1: not, each fault on a line; 2: cannot be checked
    schema_check.check(schema, document) -> list of faults; SchemaError when the schema uses a word unknown here

Only the part of JSON Schema 2020-12 that our schemas use, but that part strictly: a word that is not implemented is an
error, not ignored, so that a schema never promises what nobody checks. Unlike the standard, a key given twice in the
document is a fault, NaN and Infinity are too, and 1.0 is no integer.
"""

import json
import re
import sys

ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description"}
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}


class SchemaError(Exception):
    """The schema itself is wrong, or uses a word that is not implemented."""


def same(left, right):
    """Equality of JSON values: Python's True == 1 does not count."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def resolve(root, reference):
    if not reference.startswith("#/"):
        raise SchemaError(f"only local references: {reference}")
    node = root
    for part in reference[2:].split("/"):
        if not isinstance(node, dict) or part not in node:
            raise SchemaError(f"nothing at {reference}")
        node = node[part]
    return node


def check_at(schema, value, where, root, faults):
    if not isinstance(schema, dict):
        raise SchemaError(f"a schema must be an object, for {where}")
    for word, argument in schema.items():
        if word in ANNOTATIONS:
            continue
        if word == "$ref":
            check_at(resolve(root, argument), value, where, root, faults)
        elif word == "type":
            names = argument if isinstance(argument, list) else [argument]
            for name in names:
                if name not in TYPES:
                    raise SchemaError(f"unknown type {name}")
            if not any(TYPES[name](value) for name in names):
                faults.append(f"{where}: is {json.dumps(value)[:80]}, not of type {' or '.join(names)}")
        elif word == "properties":
            if isinstance(value, dict):
                for key, inner in argument.items():
                    if key in value:
                        check_at(inner, value[key], f"{where}.{key}", root, faults)
        elif word == "required":
            if isinstance(value, dict):
                faults.extend(f"{where}: lacks '{key}'" for key in argument if key not in value)
        elif word == "additionalProperties":
            if isinstance(value, dict):
                for key in value:
                    if key in schema.get("properties", {}):
                        continue
                    if argument is False:
                        faults.append(f"{where}: unknown key '{key}'")
                    else:
                        check_at(argument, value[key], f"{where}.{key}", root, faults)
        elif word == "items":
            if isinstance(value, list):
                for index, item in enumerate(value):
                    check_at(argument, item, f"{where}[{index}]", root, faults)
        elif word == "enum":
            if not any(same(value, choice) for choice in argument):
                faults.append(f"{where}: {json.dumps(value)[:80]} is none of {json.dumps(argument)}")
        elif word == "const":
            if not same(value, argument):
                faults.append(f"{where}: is {json.dumps(value)[:80]}, not {json.dumps(argument)}")
        elif word == "anyOf":
            attempts = []
            for choice in argument:
                attempt = []
                check_at(choice, value, where, root, attempt)
                attempts.append(attempt)
            if all(attempts):
                # The choice that got furthest is the one that was meant.
                faults.extend(max(attempts, key=lambda attempt: len(attempt[0].split(": ")[0])))
        elif word == "minimum":
            if TYPES["number"](value) and value < argument:
                faults.append(f"{where}: {value} is below {argument}")
        elif word == "pattern":
            if isinstance(value, str) and not re.search(argument, value):
                faults.append(f"{where}: {json.dumps(value)[:80]} does not match {argument}")
        else:
            raise SchemaError(f"the word '{word}' is not implemented")


def check(schema, document):
    faults = []
    check_at(schema, document, "$", schema, faults)
    return faults


def no_twins(pairs):
    result = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key '{key}' given twice")
        result[key] = value
    return result


def no_constant(name):
    raise ValueError(f"{name} is no JSON")


def load(path):
    with open(path, "rb") as file:
        return json.loads(file.read().decode("utf-8"), object_pairs_hook=no_twins, parse_constant=no_constant)


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        schema = load(arguments[0])
    except (OSError, ValueError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    try:
        document = load(arguments[1])
    except OSError as error:
        print(f"{arguments[1]}: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"{arguments[1]}: {error}")
        return 1
    try:
        faults = check(schema, document)
    except SchemaError as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
