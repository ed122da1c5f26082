import type { Descriptor } from './descriptor.ts';
import { isIndexType } from './media-type.ts';
import { OciSyntaxError } from './syntax-error.ts';

/** Operating system, architecture (Go's names) and CPU variant. Source: OCI image specification image-index.md. */
export interface Platform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
}

/** The platform of requests that name none, as text and in parts. */
export const defaultPlatformName = 'linux/amd64';
export const defaultPlatform: Platform = { os: 'linux', architecture: 'amd64' };

/**
 * Reads `linux/amd64`, `amd64`, `linux/arm64/v8` and their usual aliases.
 * Throws {@link OciSyntaxError} for anything but Linux on a supported architecture.
 */
export function parsePlatform(text: string): Platform {
  const parts = text.toLowerCase().split('/');
  const [os, architecture, variant] = parts.length === 1 ? ['linux', parts[0]] : parts;
  const known = knownArchitecture(architecture ?? '');
  const isPlain = (name: string) =>
    variant === undefined || `v${variant.replace(/^v/, '')}` === namesOf(name)?.variant;
  if (os !== 'linux' || known === undefined || !isPlain(known) || parts.length > 3) {
    throw new OciSyntaxError(
      'platform',
      `Unsupported container platform '${text.slice(0, 60)}': use ${supportedPlatforms.join(' or ')}`,
    );
  }
  return { os, architecture: known };
}

/** Returns Go's name of an architecture, or the name itself if it is unknown. */
export function goArchitecture(name: string): string {
  return knownArchitecture(name) ?? name;
}

/** Returns `os/architecture[/variant]`. */
export function formatPlatform(platform: Platform): string {
  const base = `${platform.os}/${platform.architecture}`;
  return platform.variant ? `${base}/${platform.variant}` : base;
}

/**
 * Returns true when `offered` has the same system, architecture and variant as `wanted`. An absent variant means
 * `v1` on amd64, `v8` on arm64 and `v7` on arm.
 */
export function matchesPlatform(wanted: Platform, offered: Platform): boolean {
  return isSameMachine(wanted, offered) && variantOf(wanted) === variantOf(offered);
}

/** Returns true if programs for a platform run on a machine: same system and architecture, and no higher variant. */
export function runsOn(machine: Platform, program: Platform): boolean {
  if (matchesPlatform(machine, program)) return true;
  return isSameMachine(machine, program) && compareVariants(machine, program) > 0;
}

/** Orders platforms of one architecture by their variants, the lowest first. */
export function compareVariants(one: Platform, other: Platform): number {
  const difference = Number(variantOf(one).slice(1)) - Number(variantOf(other).slice(1));
  return Number.isNaN(difference) ? 0 : difference;
}

/**
 * Returns the entry of an index for the platform: an exact match, else the next lower variant, which runs there
 * too, else the next higher variant, which may run there.
 */
export function selectPlatform(
  manifests: readonly Descriptor[],
  wanted: Platform,
): Descriptor | undefined {
  return manifests
    .filter(entry => isOffer(entry) && isSameMachine(wanted, platformOf(entry)))
    .map(entry => ({ entry, rank: rankOf(wanted, platformOf(entry)) }))
    .sort((a, b) => a.rank - b.rank)[0]?.entry;
}

/** Returns the platforms of an index for messages: `linux/amd64, linux/arm64/v8`. */
export function listPlatforms(manifests: readonly Descriptor[]): string {
  return offeredPlatforms(manifests).join(', ') || 'none listed';
}

/** Returns the platforms of an index without duplicates, such as `linux/arm64/v8`. */
export function offeredPlatforms(manifests: readonly Descriptor[]): string[] {
  const names = manifests.filter(isOffer).map(entry => formatPlatform(platformOf(entry)));
  return [...new Set(names)];
}

/** Returns true for BuildKit's provenance and SBOM manifests, which are not images. */
export function isAttestation(entry: Descriptor): boolean {
  return (
    entry.annotations?.['vnd.docker.reference.type'] === 'attestation-manifest' ||
    entry.platform?.os === 'unknown' ||
    entry.platform?.architecture === 'unknown'
  );
}

/** Returns true for an index inside an index that does not say which platforms it is for. */
export function isNestedIndex(entry: Descriptor): boolean {
  return !entry.platform && isIndexType(entry.mediaType) && !isAttestation(entry);
}

function isOffer(entry: Descriptor): boolean {
  return Boolean(entry.platform) && !isAttestation(entry);
}

function platformOf(entry: Descriptor): Platform {
  const { os = '', architecture = '', variant } = entry.platform ?? {};
  return variant ? { os, architecture, variant } : { os, architecture };
}

function isSameMachine(one: Platform, other: Platform): boolean {
  return (
    one.os === other.os && goArchitecture(one.architecture) === goArchitecture(other.architecture)
  );
}

function variantOf({ architecture, variant = '' }: Platform): string {
  if (/^\d/.test(variant)) return `v${variant}`;
  if (variant !== '') return variant;
  const name = goArchitecture(architecture);
  // 32-bit ARM is not supported, but in many indexes.
  return name === 'arm' ? 'v7' : (namesOf(name)?.variant ?? '');
}

// Smaller is better. Variants without a number come last, in the order of the index.
function rankOf(wanted: Platform, offered: Platform): number {
  if (matchesPlatform(wanted, offered)) return 0;
  const below = Number(variantOf(wanted).slice(1)) - Number(variantOf(offered).slice(1));
  if (Number.isNaN(below)) return 1e6;
  return below > 0 ? below : 1e3 - below;
}

/** What an architecture is called. */
interface ArchitectureNames {
  /** By the kernel and by Debian: `uname -m`. */
  readonly uname: string;
  /** By people. */
  readonly spellings: readonly string[];
  /** By Docker Hub, before the name of an image. */
  readonly hub: string;
  /** By conda: the subdirectory of a channel. */
  readonly subdir: string;
  /** The variant that an image without one is for. Source: containerd platforms, database.go, normalizeArch. */
  readonly variant?: string;
  /** The architecture whose programs it also runs. Source: containerd, `platforms.Only`. */
  readonly fallback?: string;
}

/**
 * The architectures that images are made for, by Go's names. A line here is all that most of the code requires; the compiler
 * names the tables that need one more.
 */
export const architectures = {
  amd64: {
    uname: 'x86_64',
    spellings: ['x86-64'],
    hub: 'amd64',
    subdir: 'linux-64',
    variant: 'v1',
    fallback: '386',
  },
  arm64: {
    uname: 'aarch64',
    spellings: [],
    hub: 'arm64v8',
    subdir: 'linux-aarch64',
    variant: 'v8',
    fallback: 'arm',
  },
} as const satisfies Readonly<Record<string, ArchitectureNames>>;

export type Architecture = keyof typeof architectures;

/** Each architecture with its names. */
export const namedArchitectures = Object.entries(architectures) as readonly [
  Architecture,
  ArchitectureNames,
][];

/** `linux/amd64`, `linux/arm64` */
export const supportedPlatforms: readonly string[] = namedArchitectures.map(
  ([name]) => `linux/${name}`,
);

const bySpelling = new Map<string, Architecture>(
  namedArchitectures.flatMap(([name, { uname, spellings, hub }]) =>
    [name, uname, ...spellings, hub].map(spelling => [spelling, name] as const),
  ),
);

/** Returns the architecture with this name, in any usual spelling; undefined if it is not supported. */
export function knownArchitecture(spelling: string): Architecture | undefined {
  return bySpelling.get(spelling);
}

/** Returns what a supported architecture is called; undefined for another one. @param name Go's name */
export function namesOf(name: string): ArchitectureNames | undefined {
  return Object.hasOwn(architectures, name) ? architectures[name as Architecture] : undefined;
}
