import { createHash } from 'node:crypto';
import { cloneAddress } from '../../../pypi/requirements/index.ts';
import { environmentImage } from '../bases/environment-image.ts';
import type { CommitParts } from './commit-parts.ts';

/** What a build writes where it needs other wheels. */
export const missingName = 'missing.json';
/** What it writes beside its wheel. */
export const metadataName = 'METADATA';
/** The program that runs in the build, beside the source distribution and the wheels that it may use. */
export const scriptName = 'sluice-build.py';

/** What git knows about a commit: a pack, and a line for each tag. */
export const historyName = 'history.pack';
export const tagsName = 'history.tags';
/** Why there is no history. */
export const problemName = 'history.problem';

/** What is built instead of a source distribution. */
export type CommitToAdd = Pick<CommitParts, 'commit' | 'submodules' | 'hasSubmodules'>;

/** Returns the recipe of a source distribution, or of a commit of a repository. */
export function wheelDockerfile(parts?: CommitToAdd): string {
  // The base image may have no shell, and another user. All that is in the folder is in the key of the wheel.
  const command = ['/opt/conda/bin/python', '-I', `in/${scriptName}`, ...folderOf(parts)];
  return `FROM ${environmentImage} AS build
USER 0
WORKDIR /sluice-build
${parts === undefined ? '' : repositoryLines(parts)}COPY . in/
RUN --network=none ${JSON.stringify(command)}
FROM scratch
COPY --from=build /sluice-build/out/ /
`;
}

function repositoryLines({ commit, submodules, hasSubmodules }: CommitToAdd): string {
  // BuildKit would fetch submodules from addresses that nobody has checked. Old versions do not know the query.
  const query = hasSubmodules ? '?submodules=false' : '';
  const line = (url: string, id: string, folder: string) =>
    `ADD --keep-git-dir=true ${cloneAddress({ url })}${query}#${id} ${folder}/\n`;
  const inner = submodules.map(({ url, id, path }) => line(url, id, `source/${path}`));
  return [line(commit.url, commit.id, 'source'), ...inner].join('');
}

function folderOf(parts: CommitToAdd | undefined): readonly string[] {
  return parts === undefined ? [] : [`source/${parts.commit.subdirectory ?? ''}`];
}

/**
 * Builds a wheel as pip does, in an environment of its own that has only what the build requires, of the wheels that are here. Where one
 * is missing, the script lists all that the build requires, so that it can begin again with these.
 */
export const script = `import glob, json, os, re, shutil, subprocess, sys, zipfile

here = "/sluice-build"
given = here + "/in"
out = here + "/out"
for folder in ("out", "home", "tmp", "pip", "made"):
    os.mkdir(os.path.join(here, folder))

[pip] = glob.glob(given + "/pip-*.whl")
with zipfile.ZipFile(pip) as archive:
    archive.extractall(here + "/pip")
if len(sys.argv) > 1:
    source = os.path.join(here, sys.argv[1])
    if not os.path.isdir(source):
        sys.exit("The repository has no folder " + sys.argv[1].partition("/")[2])
else:
    [source] = glob.glob(given + "/*.tar.gz") + glob.glob(given + "/*.zip")

def described():
    sys.path.insert(0, here + "/pip")
    try:
        import tomllib
    except ImportError:
        from pip._vendor import tomli as tomllib
    import tarfile

    def read():
        if os.path.isdir(source):
            path = source + "/pyproject.toml"
            with open(path if os.path.exists(path) else os.devnull, "rb") as file:
                return file.read()
        if source.endswith(".zip"):
            with zipfile.ZipFile(source) as archive:
                for name in archive.namelist():
                    if re.fullmatch(r"[^/]+/pyproject\\.toml", name):
                        return archive.read(name)
            return b""
        with tarfile.open(source) as archive:
            for member in archive:
                if member.isfile() and re.fullmatch(r"(\\./)?[^/]+/pyproject\\.toml", member.name):
                    return archive.extractfile(member).read()
        return b""

    try:
        return tomllib.loads(read().decode("utf-8"))
    except Exception as problem:
        print("pyproject.toml cannot be read:", problem)
        return {}


def report(missing):
    with open(out + "/${missingName}", "w") as file:
        json.dump(sorted(missing.union(declared))[:100], file)
    print("The build requires", ", ".join(sorted(missing)))
    sys.exit(0)


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# pip names one after the other, and takes seconds for each. It also knows which markers hold.
project = described()
requires = project.get("build-system", {}).get("requires", [])
declared = [one for one in requires if isinstance(one, str)]
here_already = {plain(os.path.basename(one).split("-")[0]) for one in glob.glob(given + "/*.whl")}
absent = {
    one
    for one in declared
    if ";" not in one and plain(re.match(r"[\\w.-]*", one).group()) not in here_already
}
if absent:
    report(absent)

environment = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PIP_", "PYTHON"))
}
environment.update(
    HOME=here + "/home",
    TMPDIR=here + "/tmp",
    LC_ALL="C.UTF-8",
    CONDA_PREFIX="/opt/conda",
    PATH="/opt/conda/bin:" + environment.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
    PIP_CONFIG_FILE=os.devnull,
    SOURCE_DATE_EPOCH="315532800",
)

def by_tags():
    """Names what takes the version of the project from tags of its repository."""
    known = "setuptools-scm hatch-vcs vcs-versioning versioneer setuptools-git-versioning versioningit flit-scm"
    known += " poetry-dynamic-versioning uv-dynamic-versioning dunamai pbr setuptools-git-version"
    for one in declared:
        if plain(re.match(r"[\\w.-]*", one).group()) in known.split():
            return one
    tool = project.get("tool", {})
    if tool.get("pdm", {}).get("version", {}).get("source") == "scm":
        return "pdm-backend"
    path = os.path.join(source, "setup.py")
    if os.path.isfile(path):
        with open(path, "rb") as file:
            found = re.search(rb"use_scm_version|versioneer|setuptools_git_versioning|\\bpbr\\b", file.read(1000000))
        return found and found.group().decode()


def add_history():
    tool = by_tags()
    git = shutil.which("git", path=environment["PATH"])
    problem = None
    if os.path.exists(given + "/${problemName}"):
        with open(given + "/${problemName}") as file:
            problem = file.read()
    if tool and not git:
        sys.exit(tool + " takes the version from tags of the repository, and requires git: add git to the packages of Conda")
    if tool and problem:
        sys.exit(tool + " takes the version from tags of the repository, which are not here: " + problem + ". Use a release of the package at an index")
    if not git:
        return

    def run(*arguments, text=""):
        words = [git, "-C", here + "/source", *arguments]
        return subprocess.run(words, env=environment, input=text, check=True, stdout=subprocess.PIPE, text=True).stdout

    # The builder may know other tags, of other builds.
    old = run("for-each-ref", "--format=delete %(refname)", "refs/tags")
    run("update-ref", "--stdin", text=old)
    if problem:
        return
    pack = here + "/source/.git/objects/pack/pack-history.pack"
    shutil.copyfile(given + "/${historyName}", pack)
    run("index-pack", pack)
    shallow = here + "/source/.git/shallow"
    if os.path.exists(shallow):
        os.remove(shallow)
    with open(given + "/${tagsName}") as file:
        lines = [line.rstrip("\\n").split(" ", 1) for line in file]
    run("update-ref", "--stdin", text="".join("create refs/tags/%s %s\\n" % (name, id) for id, name in lines))


if len(sys.argv) > 1:
    add_history()

command = [sys.executable, here + "/pip/pip", "wheel", "--no-deps", "--no-index", "--find-links", given]
command += ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--use-pep517", "--progress-bar", "off"]
command += ["--wheel-dir", here + "/made", source]

missing = set()
tool = None
process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
for line in iter(lambda: process.stdout.readline(65536), b""):
    text = line[:2000].decode("utf-8", "replace")
    sys.stdout.write(text if text.endswith("\\n") else text + "\\n")
    sys.stdout.flush()
    found = re.search(r"No matching distribution found for (\\S.*?)\\s*$", text)
    if found and len(missing) < 50:
        missing.add(found.group(1))
    found = re.search(r"No such file or directory: '([^']{1,100})'|command '([^']{1,100})' failed: No such file", text)
    name = os.path.basename((found.group(1) or found.group(2)) if found else "")
    if re.fullmatch(r"(.+-)?(gcc|g\\+\\+|cc|c\\+\\+|clang|clang\\+\\+|gfortran|cmake|ninja|make|cargo|rustc|pkg-config|swig)(-[0-9.]+)?", name):
        tool = name
code = process.wait()

if code != 0 and missing:
    report(missing)
if code != 0 and tool:
    compiler = {"gcc": "gcc", "cc": "gcc", "g++": "gxx", "c++": "gxx", "cargo": "rust", "rustc": "rust"}
    package = compiler.get(tool.split("-")[-1], tool)
    sys.exit("The build requires the program " + tool + ": add " + package + " to the packages of Conda, or use a base image that has it")
if code != 0:
    sys.exit(code if 0 < code < 126 else 1)

made = glob.glob(here + "/made/*.whl")
if len(made) != 1:
    sys.exit("The build has made %d wheels instead of one" % len(made))
with zipfile.ZipFile(made[0]) as archive:
    names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\\.dist-info/METADATA", name)]
    if len(names) != 1:
        sys.exit("The wheel has no METADATA")
    head = archive.read(names[0]).replace(b"\\r\\n", b"\\n").split(b"\\n\\n", 1)[0]
with open(out + "/${metadataName}", "wb") as file:
    file.write(head + b"\\n")
os.rename(made[0], os.path.join(out, os.path.basename(made[0])))
`;

const any = { url: 'https://sluice.invalid/a', id: '0'.repeat(40) };
const anyParts: CommitToAdd = {
  commit: any,
  submodules: [{ path: 'a', ...any }],
  hasSubmodules: true,
};

/** Changes with everything in the recipe that a wheel depends on. */
export const wheelRecipeVersion = createHash('sha256')
  .update(wheelDockerfile())
  .update(wheelDockerfile(anyParts))
  .update(script)
  .digest('hex');
