/**
 * A Python program that prints the packages that pip installed, as sorted `# pip <requirement>` lines. It omits
 * packages that conda installed: the explicit list already contains them. Source: PyPA, Recording installed projects
 * (INSTALLER) and Direct URL Data Structure.
 */
export const pipLock = `import json
from importlib.metadata import distributions


def requirement(found):
    name = found.metadata["Name"]
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    if "subdirectory" in origin:
        url += "#subdirectory=" + origin["subdirectory"]
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        address, hash, fragment = url.partition("#")
        return f"{name} @ {vcs['vcs']}+{address}@{vcs['commit_id']}{hash}{fragment}"
    if "archive_info" in origin and not url.startswith("file:"):
        return f"{name} @ {url}"
    return f"{name}=={found.version}"


def installer(found):
    return (found.read_text("INSTALLER") or "").strip()


for line in sorted({requirement(found) for found in distributions() if installer(found) == "pip"}):
    print("# pip", line)
`;
