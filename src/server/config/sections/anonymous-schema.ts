import { z } from 'zod';
import { countLimit, limit } from '../units.ts';

/** Limits for the state of callers without an access token. */
export const anonymous = z.strictObject({
  maxRequests: countLimit
    .prefault(2_000_000)
    .describe('Container requests kept for callers without an access token, in all'),
  maxFiles: countLimit
    .prefault(2_000_000)
    .describe('Files kept for them: layers, build contexts, manifests and configs'),
  maxBytes: limit.prefault('100 GiB').describe('Bytes of these files and requests'),
  maxNetworkRequests: countLimit
    .prefault(200_000)
    .describe('Container requests kept for one network: an address, or a /64 of IPv6'),
  maxNetworkFiles: countLimit.prefault(200_000).describe('Files kept for one network'),
  maxNetworkBytes: limit
    .prefault('10 GiB')
    .describe('Bytes of the files and requests of one network'),
  maxBuildBytes: limit
    .prefault('100 GiB')
    .describe(
      'Size of the hosted repository for builds. Above it, only callers with an access token can begin builds',
    ),
});
