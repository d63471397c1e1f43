#!/usr/bin/env python3
"""Prints the layout of types that libabigail describes, one line for each plain value.

The types are those to which the variables of the description point. A line has the type, the first
bit and the size of the value, and its name: `QueuePair 64 32 number`. A type of the standard library
is one value. An enumeration has a line for each of its values.

Usage: flat_layout.py FILE     FILE: as abidw writes it
"""

import sys
import xml.etree.ElementTree as ET


def types_of(corpus):
    """All types by id, each with the namespace in which it is declared."""
    types = {}

    def walk(node, namespace):
        for child in node:
            inner = namespace
            if child.tag in ("namespace-decl", "class-decl", "union-decl"):
                inner = namespace + child.get("name", "") + "::"
            if "id" in child.attrib and child.get("is-declaration-only") != "yes":
                types.setdefault(child.get("id"), (child, namespace))
            walk(child, inner)

    walk(corpus, "")
    return types


def main():
    corpus = ET.parse(sys.argv[1]).getroot()
    types = types_of(corpus)

    def plain(type_id):
        node, namespace = types[type_id]
        while node.tag in ("typedef-decl", "qualified-type-def"):
            node, namespace = types[node.get("type-id")]
        return node, namespace

    def size_of(node):
        if "size-in-bits" in node.attrib:
            return int(node.get("size-in-bits"))
        underlying = node.find("underlying-type")  # of an enumeration
        return size_of(plain((node if underlying is None else underlying).get("type-id"))[0])

    def values(type_id, at, name):
        node, namespace = plain(type_id)
        if node.tag == "array-type-def":
            element, space = plain(node.get("type-id"))
            if element.tag == "class-decl" and not space.startswith("std::"):
                yield at, size_of(node), name
                yield from values(node.get("type-id"), at, name + "[]")
                return
        members = [member for member in node if member.tag in ("base-class", "data-member")]
        if node.tag not in ("class-decl", "union-decl") or namespace.startswith("std::") or not members:
            yield at, size_of(node), name
            return
        for member in members:
            offset = at + int(member.get("layout-offset-in-bits", 0))
            if member.tag == "base-class":
                yield from values(member.get("type-id"), offset, name)
            elif member.get("static") != "yes":
                variable = member.find("var-decl")
                inner = variable.get("name", "")
                yield from values(variable.get("type-id"), offset,
                                  f"{name}.{inner}" if name and inner else name or inner)

    for variable in corpus.iter("var-decl"):
        pointer, _ = types.get(variable.get("type-id"), (None, ""))
        if "mangled-name" not in variable.attrib or pointer is None or pointer.tag != "pointer-type-def":
            continue
        node, _ = plain(pointer.get("type-id"))
        print(f"{node.get('name')} {size_of(node)} bits")
        if node.tag == "enum-decl":
            for value in node.iter("enumerator"):
                print(f"{node.get('name')} {value.get('value')} = {value.get('name')}")
        else:
            for at, size, name in values(pointer.get("type-id"), 0, ""):
                print(f"{node.get('name')} {at} {size} {name}")


if __name__ == "__main__":
    main()
