import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
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

// Paths of the largest packages have some megabytes. More at a time would hold the event loop.
const mostPathBytes = 16 * 1024 * 1024;
const inflate = promisify(inflateRaw);

/**
 * @param pathsOf returns the packed paths of a package by the key of its layer; undefined for one that is no longer known, whose layer is
 * not described
 */
export function createDescribedLayers(
  pathsOf: (key: string) => Promise<Buffer | undefined>,
  log: Pick<Logger, 'warn'>,
): DescribedLayers {
  const contentsOf = async (key: string): Promise<PathFindings | undefined> => {
    try {
      const packed = await pathsOf(key);
      if (packed === undefined) return undefined;
      return await findingsIn(await inflate(packed, { maxOutputLength: mostPathBytes }));
    } catch (err) {
      // The scanner reads the layer instead.
      log.warn({ err, package: key }, 'the paths of a package cannot be read for a scan');
      return undefined;
    }
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

/** Archives and lists of modules in other languages. Scanners also read zip files, which may be Java archives. */
const ofOthers =
  /\.(?:jar|war|ear|par|sar|nar|kar|rar|lpkg|zip|hpi|jpi|gemspec|deb|rpm|apk|nupkg|dll|exe|rockspec|whl|deps\.json)$|\.egg(?:$|\/)|\/(?:package|package-lock|installed|vcpkg)\.json$|\/(?:yarn|Cargo|composer|mix)\.lock$|\/go\.mod$/i;
/** Commands of the environment may have modules of Go or Rust compiled in. Those of Python projects are scripts. */
const command = /^bin\/[^/]+$/;
const programFolder = /(?:^|\/)(?:s?bin|libexec)\//;
/**
 * Names that programs have in other folders. The rows do not say which files are executable: without this guess, plugins
 * such as `lib/docker/cli-plugins/docker-compose` would not be scanned.
 */
const programName =
  /(?:^|\/)\.?[^/.]+$|\.\d[^/.]*$|\.(?:appimage|bin|elf|out|run|x86_64|amd64|aarch64|arm64)$/i;
/** Libraries, headers and texts with such names. */
const noProgram =
  /\.so\.[\d.]+$|(?:^|\/)(?:include|zoneinfo)\/|^(?:share\/)?(?:man|doc|info|licenses|locale|terminfo)\/|\.(?:dist|egg)-info(?:$|\/)|(?:^|\/)(?:LICEN[CS]E|COPYING|NOTICE|README|AUTHORS|CHANGES|Makefile)[-_A-Z0-9]*$/;
const anyMetadata = /(?:dist|egg)-info/i;
const metadataFolder =
  /^([A-Za-z0-9][A-Za-z0-9._]*)-(\d[A-Za-z0-9._!+]*)(?:\.dist-info|(?:-py\d[\d.]*)?\.egg-info)$/;
const bytesAtOnce = 256 * 1024;

/** Reads the paths of a package, with pauses. @param paths separated by NUL, in UTF-8, below the prefix of the environment */
export async function findingsIn(paths: Buffer): Promise<PathFindings> {
  const projects = new Map<string, BilledComponent>();
  let hasCommands = false;
  let hasMore = false;
  for (let begin = 0; begin < paths.length; ) {
    const nul = paths.indexOf(0, begin + bytesAtOnce);
    const end = nul < 0 ? paths.length : nul;
    for (const path of paths.toString('utf8', begin, end).split('\0')) {
      const own = anyMetadata.test(path) ? projectsOf(path) : [];
      for (const project of own ?? []) projects.set(project.purl, project);
      hasMore ||= own === undefined || ofOthers.test(path) || isProgram(path);
      hasCommands ||= command.test(path);
    }
    begin = end + 1;
    await pauseTurn();
  }
  const isDescribed = !hasMore && (projects.size > 0 || !hasCommands);
  return { projects: [...projects.values()], isDescribed };
}

/** Returns true for a file that may be a program and is not a command of the environment. */
function isProgram(path: string): boolean {
  if (command.test(path)) return false;
  return programFolder.test(path) || (programName.test(path) && !noProgram.test(path));
}

/**
 * Returns the Python projects whose metadata a path belongs to: `requests` 2.32.0 for `.../requests-2.32.0.dist-info/METADATA`.
 * Undefined if its names do not say which project or version: scanners read those in the file.
 */
function projectsOf(path: string): readonly BilledComponent[] | undefined {
  const projects: BilledComponent[] = [];
  for (const name of path.split('/')) {
    if (!anyMetadata.test(name)) continue;
    const [, project, version] = metadataFolder.exec(name) ?? [];
    if (project === undefined || version === undefined) return undefined;
    const known = project.replace(/[-_.]+/g, '-').toLowerCase();
    const purl = `pkg:pypi/${known}@${encodeURIComponent(version)}`;
    projects.push({ name: known, version, purl });
  }
  return projects;
}
