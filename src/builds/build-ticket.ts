import type { Descriptor } from '../oci/index.ts';
import type { BuildRow } from '../storage/rows/index.ts';

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
