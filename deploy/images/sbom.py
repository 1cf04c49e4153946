#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the software bill of materials of an image, as CycloneDX 1.5 JSON.

    deploy/images/sbom.py ROOT NAME [--version VERSION]

ROOT is the image's file system, mounted or unpacked. Listed are its Debian packages, from dpkg's
records, and its Python distributions, from their metadata. The same tree gives the same bytes.
"""

import argparse
import email.parser
import json
import pathlib
import urllib.parse


def debian_packages(root):
    status = root / "var/lib/dpkg/status"
    for paragraph in status.read_text(errors="replace").split("\n\n") if status.exists() else []:
        fields = email.parser.HeaderParser().parsestr(paragraph)
        if fields["Package"] and fields["Status"] == "install ok installed":
            yield fields["Package"], fields["Version"], fields["Architecture"]


def python_distributions(root):
    for pattern in (
        "usr/lib/python3*/*-packages/*.dist-info/METADATA",
        "usr/local/lib/python3*/*-packages/*.dist-info/METADATA",
    ):
        for metadata in root.glob(pattern):
            fields = email.parser.HeaderParser().parsestr(metadata.read_text(errors="replace"))
            yield fields["Name"], fields["Version"]


def component(name, version, purl):
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def bill(root, name, version):
    quote = urllib.parse.quote
    components = [
        component(
            package, number, f"pkg:deb/debian/{quote(package)}@{quote(number)}?arch={architecture}"
        )
        for package, number, architecture in debian_packages(root)
    ]
    components += [
        component(package, number, f"pkg:pypi/{quote(package.lower())}@{quote(number)}")
        for package, number in python_distributions(root)
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "bom-ref": name, "name": name, "version": version}
        },
        "components": sorted(components, key=lambda one: one["purl"]),
    }


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("root", type=pathlib.Path)
    options.add_argument("name")
    options.add_argument("--version", default="0")
    given = options.parse_args()
    print(json.dumps(bill(given.root, given.name, given.version), indent=1))


if __name__ == "__main__":
    main()
