import { z } from 'zod';
import { countLimit, limit } from '../units.ts';

/** Limits for the state of callers without a login. */
export const anonymous = z.strictObject({
  maxRequests: countLimit
    .prefault(2_000_000)
    .describe('Maximum number of container requests that are kept for all callers without a login'),
  maxFiles: countLimit
    .prefault(2_000_000)
    .describe(
      'Maximum number of files that are kept for these callers: layers, build contexts, manifests and configs',
    ),
  maxBytes: limit
    .prefault('100 GiB')
    .describe('Maximum size of the files and requests that are kept for these callers'),
  maxNetworkRequests: countLimit
    .prefault(200_000)
    .describe(
      'Maximum number of container requests that are kept for one network without a login. A network is an IPv4 address or an IPv6 /64',
    ),
  maxNetworkFiles: countLimit
    .prefault(200_000)
    .describe('Maximum number of files that are kept for one network'),
  maxNetworkBytes: limit
    .prefault('10 GiB')
    .describe('Maximum size of the files and requests that are kept for one network'),
  maxBuildBytes: limit
    .prefault('100 GiB')
    .describe(
      'Size of the hosted repository for builds, and of each one for frozen images, above which only callers with a login can start builds in it',
    ),
});
