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
