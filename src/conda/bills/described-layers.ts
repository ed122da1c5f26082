import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { Digest } from '../../oci/digest.ts';
import type { BilledComponent, PlatformParts } from './platform-parts.ts';
import { partsInBill } from './write-documents.ts';

/** What a bill of materials says about the image of one platform, for scanners. */
export interface DescribedParts {
  /** All layers with packages. */
  readonly contents: readonly Digest[];
  /** Layers of which the components name everything that a scanner would find in them. */
  readonly layers: ReadonlySet<Digest>;
  /** Packages of all layers with packages. */
  readonly components: readonly BilledComponent[];
}

/** Returns what the bill of a build says, for each platform. @param kept the bill that was kept with the build */
export type DescribedLayers = (kept: Uint8Array) => Promise<readonly DescribedParts[]>;

// Paths of the largest packages have some megabytes.
const mostPathBytes = 64 * 1024 * 1024;
const inflate = promisify(inflateRaw);

/**
 * @param pathsOf returns the packed paths of a package by the key of its layer; undefined for one that is no longer known, whose layer is
 * not described
 */
export function createDescribedLayers(
  pathsOf: (key: string) => Promise<Buffer | undefined>,
): DescribedLayers {
  const contentsOf = async (key: string): Promise<PathFindings | undefined> => {
    const packed = await pathsOf(key);
    if (packed === undefined) return undefined;
    return findingsIn((await inflate(packed, { maxOutputLength: mostPathBytes })).toString());
  };

  const describe = async ({ components, contents }: PlatformParts): Promise<DescribedParts> => {
    const all = new Map(components.map(one => [one.purl, one]));
    const layers = new Set<Digest>();
    for (const { digest, keys } of contents) {
      const found: (PathFindings | undefined)[] = [];
      for (const key of keys) found.push(await contentsOf(key));
      for (const one of found) {
        for (const project of one?.projects ?? []) all.set(project.purl, project);
      }
      if (found.every(one => one?.isDescribed)) layers.add(digest);
    }
    return {
      contents: contents.map(({ digest }) => digest),
      layers,
      components: [...all.values()],
    };
  };

  return async kept => {
    const described: DescribedParts[] = [];
    for (const parts of await partsInBill(kept)) described.push(await describe(parts));
    return described;
  };
}

/** What the paths of a package say about its content. */
export interface PathFindings {
  /** Python projects that are installed in it: scanners know vulnerabilities by these, and not by packages of Conda. */
  readonly projects: readonly BilledComponent[];
  /** False where a scanner would find more than these and the package itself. */
  readonly isDescribed: boolean;
}

/** Archives and lists of modules in other languages. */
const ofOthers =
  /\.(?:jar|war|ear|par|sar|nar|hpi|jpi|gemspec|deb|rpm|apk|nupkg|dll|exe|rockspec|whl|egg|deps\.json)$|\/(?:package|package-lock|installed|vcpkg)\.json$|\/(?:yarn|Cargo|composer|mix)\.lock$|\/go\.mod$/;
/** Programs may have modules of Go or Rust compiled in. Scripts of Python projects have not. */
const program = /(?:^|\/)(?:s?bin|libexec)\//;
const pathsAtOnce = 5000;

/** Reads the paths of a package, with pauses. @param paths separated by NUL */
export async function findingsIn(paths: string): Promise<PathFindings> {
  const projects = new Map<string, BilledComponent>();
  let hasPrograms = false;
  let hasOthers = false;
  let count = 0;
  for (let begin = 0; begin < paths.length; ) {
    const nul = paths.indexOf('\0', begin);
    const end = nul < 0 ? paths.length : nul;
    const path = paths.slice(begin, end);
    begin = end + 1;
    const project = projectOf(path);
    if (project) projects.set(project.purl, project);
    hasOthers ||= ofOthers.test(path);
    hasPrograms ||= program.test(path);
    count += 1;
    if (count % pathsAtOnce === 0) await pauseTurn();
  }
  const isDescribed = !hasOthers && (projects.size > 0 || !hasPrograms);
  return { projects: [...projects.values()], isDescribed };
}

/** Returns the Python project whose metadata a path belongs to: `requests` 2.32.0 for `.../requests-2.32.0.dist-info/METADATA`. */
function projectOf(path: string): BilledComponent | undefined {
  const at = Math.max(path.lastIndexOf('.dist-info/'), path.lastIndexOf('.egg-info'));
  if (at < 0) return undefined;
  const [name = '', version = ''] = path.slice(path.lastIndexOf('/', at) + 1, at).split('-');
  if (name === '' || version === '') return undefined;
  const known = name.replace(/[-_.]+/g, '-').toLowerCase();
  const purl = `pkg:pypi/${encodeURIComponent(known)}@${encodeURIComponent(version)}`;
  return { name: known, version, purl };
}
