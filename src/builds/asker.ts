import type { SealedGrant } from '../platform/identities.ts';

/** Base64 by id. */
export type Secrets = Readonly<Record<string, string>>;

/** Who asks for a build. */
export interface Asker {
  /** Whose turn it is in the queue; all that one asks for stands in one line. */
  readonly owner: string;
  /** Tells apart what askers may see: who has the same sees the same. */
  readonly scope: string;
  /** Gets the longer time limit. */
  readonly isTrusted: boolean;
  /** In whose right images are pulled and pushed; undefined for nobody known. */
  readonly grant: SealedGrant | undefined;
  /** Secrets of the build, base64 by id; kept in memory only. */
  readonly secrets?: Secrets | undefined;
  /**
   * Called before a new build begins, and for nobody else's; what it throws prevents it. What it returns is
   * called when the service itself is why the build fails.
   */
  readonly onBegin: OnBegin;
}

/** Called before a build begins; returns how that is undone. */
export type OnBegin = () => Undo;

export type Undo = () => void;
