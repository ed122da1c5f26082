/** The properties of this machine that decide how BuildKit can be built. */
export interface Machine {
  /** Version of Go, such as `1.26.4`; undefined without Go. */
  readonly go: string | undefined;
  readonly isDebian: boolean;
  readonly isRoot: boolean;
}

/**
 * How BuildKit can be built:
 *
 * - `go`: by the machine's own Go, from the Go module proxy
 * - `debian-go`: by Debian's Go in a private root, from the Go module proxy
 * - `debian-source`: by Debian's Go in a private root, from Debian's source package; an older BuildKit
 */
export type Road = 'go' | 'debian-go' | 'debian-source';

// The version in BuildKit's go.mod. From 1.21 on, Go downloads a newer version of itself if it may.
const wantedGo = [1, 26, 8];
const fetchingGo = [1, 21, 0];

/** Returns the ways to build on this machine, the best one first; empty if there is none. */
export function roadsOf({ go, isDebian, isRoot }: Machine): Road[] {
  const hasRoots = isDebian && isRoot;
  // The machine's own Go has already tried what Debian's Go could do.
  const isNew = go !== undefined && isAtLeast(go, wantedGo);
  const canGo = go !== undefined && isAtLeast(go, fetchingGo);
  return [
    ...(canGo ? (['go'] as const) : []),
    ...(hasRoots && !isNew ? (['debian-go'] as const) : []),
    ...(hasRoots ? (['debian-source'] as const) : []),
  ];
}

function isAtLeast(version: string, wanted: readonly number[]): boolean {
  const parts = version.split('.').map(part => Number.parseInt(part, 10) || 0);
  const place = wanted.findIndex((number, index) => (parts[index] ?? 0) !== number);
  return place < 0 || (parts[place] ?? 0) > (wanted[place] ?? 0);
}
