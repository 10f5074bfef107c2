"""programs.py DIR: writes every program that the README and the bindings print into DIR, one a file.

The root that they name is DIR/root. A program that is printed in a language which is not known here ends this with an error:
every one is run. The guide's come in the order of its pages' names.
"""

import pathlib
import re
import sys

PAGES = ["README.md", "bindings/python/README.md", "bindings/go/README.md", "bindings/cpp/README.md", "bindings/node/README.md", "bindings/ruby/README.md", "bindings/lua/README.md", "bindings/php/README.md", "bindings/java/README.md", "bindings/dotnet/README.md"]
PAGES += sorted(str(page) for where in ("docs", "docs/guide/src") for page in pathlib.Path(where).glob("*.md"))
KNOWN = {"rust": "rs", "c": "c", "python": "py", "sh": "sh", "go": "go", "cpp": "cpp", "js": "js", "ruby": "rb", "lua": "lua", "php": "php", "java": "java", "csharp": "cs"}


def programs():
    for page in PAGES:
        text = pathlib.Path(page).read_text()
        for language, program in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            # A block without a language is not a program.
            if language and language not in KNOWN:
                sys.exit(f"{page}: a program in {language!r} cannot be run")
            if not language:
                continue
            # Commands that change an administrator's directories are tested by tests/suite/roots.rs.
            if language == "sh" and page.startswith("docs/") and not page.startswith("docs/guide/"):
                continue
            yield page, KNOWN[language], program
    # The package's own text.
    text = pathlib.Path("bindings/python/coracle/__init__.py").read_text().split('"""')[1]
    lines = [line[4:] for line in text.split("\n") if line.startswith("    ") or not line]
    yield "bindings/python/coracle/__init__.py", "py", "\n".join(lines).replace("\\\\n", "\\n")
    header = pathlib.Path("include/coracle.h").read_text()
    if re.search(r"^ \* .*\bint main\b", header, re.MULTILINE):
        sys.exit("include/coracle.h prints a program: have it run")


into = pathlib.Path(sys.argv[1])
for number, (page, ending, program) in enumerate(programs()):
    # Making and testing the project is what runs this.
    if ending == "sh" and "make demo" in program:
        continue
    for path in ("/var/lib/coracle", "/var/lib/app/containers"):
        program = program.replace(path, str(into / "root"))
    # A reader's machine is not as busy as one that runs all tests.
    program = re.sub(r"\btimeout(=|: | = )(\d+)", r"timeout\g<1>\g<2>0", program)
    program = re.sub(r"(coracle_op_set_timeout\(op, \d+)", r"\g<1>0", program)
    name = into / f"{number:02}-{re.sub(r'[^a-z]+', '-', page.lower()).strip('-')}.{ending}"
    name.write_text(program)
    print(name)
