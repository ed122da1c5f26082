import type { CondaPackage } from '../conda-package.ts';

/** What the solver's thread is started with. */
export interface ThreadSettings {
  /** Maximum memory of the solver, bytes. */
  readonly memoryBytes: number;
}

/** What the solver's thread gets for one environment. */
export interface SolveOrder {
  readonly solve: number;
  readonly specs: readonly string[];
  /** Base URLs in order of priority. */
  readonly channels: readonly string[];
  readonly platforms: readonly string[];
  readonly subdirs: readonly SubdirOrder[];
  readonly locked: readonly LockedRecord[];
}

/** Repository data of one subdirectory. */
export interface SubdirOrder {
  /** URL of the subdirectory, without a slash at the end. */
  readonly url: string;
  readonly subdir: string;
  /** Names of packages that are not taken from here. */
  readonly hidden: readonly string[];
  /** File of its shards; undefined for a channel that has no such subdirectory. */
  readonly path: string | undefined;
  /** Upstream URL of the shards that are not in the file. */
  readonly shards: string | undefined;
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

/** A request of the thread for a shard that is not in its files. */
export interface ShardRequest {
  readonly shard: number;
  /** Upstream URL of the shards. */
  readonly base: string;
  readonly hex: string;
}

export interface ShardResponse {
  readonly shard: number;
  readonly bytes: Uint8Array;
}

export type UnsolvedCause = 'solver' | 'channel' | 'disk' | 'unreadable' | 'memory' | 'fault';

/** A message from the thread. */
export type ThreadMessage =
  | ShardRequest
  | {
      readonly solved: number;
      readonly packages: readonly CondaPackage[];
      readonly memoryBytes: number;
    }
  | {
      readonly failed: number;
      /** `channel`: repository data is at fault. `disk`: kept data is damaged. `unreadable`: it cannot be read, and the reason
       * is a code such as `EIO`. `memory`: it needs more. `fault`: the solver broke down. */
      readonly cause: UnsolvedCause;
      readonly reason: string;
      readonly memoryBytes: number;
    };
