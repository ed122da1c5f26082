/** What the solver's thread gets for one environment. */
export interface SolveOrder {
  readonly solve: number;
  readonly specs: readonly string[];
  /** Base URLs in order of priority. */
  readonly channels: readonly string[];
  readonly platforms: readonly string[];
  readonly locked: readonly LockedRecord[];
}

/** A package that the solver takes as installed. */
export interface LockedRecord {
  readonly url: string;
  readonly packageName: string;
  readonly version: string;
  readonly build: string;
  readonly buildNumber: bigint;
  readonly filename: string;
  readonly depends: readonly string[];
  readonly subdir: string;
  readonly repoName: string;
  readonly md5?: string | undefined;
  readonly sha256?: string | undefined;
  readonly size?: bigint | undefined;
}

/** The answer to a question of the thread for a file. */
export interface FileAnswer {
  readonly file: number;
  readonly status: number;
  readonly bytes: Uint8Array;
}

/** A package as the solver returns it. */
export interface SolvedRecord {
  readonly name: string;
  readonly version: string;
  readonly build: string;
  readonly buildNumber: number;
  readonly subdir: string;
  readonly fileName: string;
  readonly url: string;
  readonly size: number | undefined;
  readonly sha256: string | undefined;
  readonly md5: string | undefined;
  readonly depends: readonly string[];
  readonly record: Readonly<Record<string, unknown>> | undefined;
}

/** What the thread tells. */
export type ThreadMessage =
  | { readonly file: number; readonly url: string }
  | { readonly solved: number; readonly packages: readonly SolvedRecord[] }
  | { readonly failed: number; readonly reason: string };
