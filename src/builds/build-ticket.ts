import type { Descriptor } from '../oci/descriptor.ts';
import type { BuildRow } from '../storage/rows/images/build-rows.ts';

/** What a request for a build is answered with. */
export interface BuildTicket {
  /** Undefined for an image that is there without a build of this service. */
  readonly id: string | undefined;
  /** The image exists. */
  readonly isCached: boolean;
  /** Undefined while it runs; false when it failed so recently that it is not tried again. */
  readonly succeeded: boolean | undefined;
  /** Why it failed. */
  readonly reason?: string;
  /** What its name stood for a moment ago, where that was asked. */
  readonly image?: Pick<Descriptor, 'digest' | 'mediaType'>;
}

/** Returns the ticket of a build as it stands. */
export function ticketOf({ id, succeeded, reason }: BuildRow): BuildTicket {
  return {
    id,
    isCached: succeeded === true,
    succeeded: succeeded ?? undefined,
    ...(reason === null ? {} : { reason }),
  };
}
