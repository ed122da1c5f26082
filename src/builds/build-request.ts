import type { Descriptor } from '../oci/index.ts';
import type { SealedGrant } from '../platform/index.ts';
import type { BuildRow } from '../storage/rows/index.ts';
import type { ShownBases } from './solve/bases/base-check.ts';

/** What a build must not store. */
export interface Secrets {
  /** Base64 by id. */
  readonly values: Readonly<Record<string, string>>;
  /** Private keys, base64, by the id of their SSH agent. */
  readonly sshKeys: Readonly<Record<string, readonly string[]>>;
}

/** Who has a build: a user, or the network of callers without a login. */
export interface Requester {
  /** As in {@link BuildCaller}. */
  readonly owner: string;
  /** What the access token of the caller is limited to; empty for no limit. */
  readonly limits: string;
}

/** Returns true if a caller may see and cancel what another one requested: limited tokens of a user have builds of their own. */
export function isSame(caller: Requester, other: Requester): boolean {
  return caller.owner === other.owner && (caller.limits === '' || caller.limits === other.limits);
}

/** The caller that requests a build. */
export interface BuildCaller {
  /** The owner of the build in the queue: the builds of one owner wait for each other. */
  readonly owner: string;
  /** What the caller may see: callers with the same scope see the same images. */
  readonly scope: string;
  /** Gets the longer time limit. */
  readonly isTrusted: boolean;
  /** The rights with which images are pulled and pushed; undefined for a caller without a login. */
  readonly grant: SealedGrant | undefined;
  /** Secrets of the build; kept in memory only. Undefined for none. */
  readonly secrets?: Secrets | undefined;
  /** The base images that registries have just shown to this caller. */
  readonly shown?: ShownBases | undefined;
  /**
   * Called before a new build of this caller begins; an exception prevents the build. The returned function is
   * called when the build fails because of the service itself.
   */
  readonly onBegin: OnBegin;
}

/** Called before a build begins; returns a function that undoes the call. */
export type OnBegin = () => Undo;

export type Undo = () => void;

/** The response to a request for a build. */
export interface BuildTicket {
  /** Undefined for an image that exists without a build of this service. */
  readonly id: string | undefined;
  /** True if the image exists. */
  readonly isCached: boolean;
  /** Undefined while the build runs; false when it failed so recently that the request does not start it again. */
  readonly succeeded: boolean | undefined;
  /** Reason of the failure. */
  readonly reason?: string;
  /** The recently resolved image of that name, if it was looked up. */
  readonly image?: Pick<Descriptor, 'digest' | 'mediaType'>;
}

/** Returns the ticket for the current state of a build. */
export function ticketOf({ id, succeeded, reason }: BuildRow): BuildTicket {
  return {
    id,
    isCached: succeeded === true,
    succeeded: succeeded ?? undefined,
    ...(reason === null ? {} : { reason }),
  };
}
