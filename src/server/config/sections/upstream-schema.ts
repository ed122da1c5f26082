import { z } from 'zod';
import { duration } from '../units.ts';
import { count, flag } from '../values.ts';

/** Timeouts, attempts and connections for other registries. */
export const upstream = z.strictObject({
  connectTimeout: duration
    .prefault('5s')
    .describe('Timeout for connecting to a registry, including TLS'),
  headersTimeout: duration.prefault('15s').describe('Timeout for the first byte of its answer'),
  idleTimeout: duration.prefault('30s').describe('Timeout between two bytes of its answer'),
  stallTimeout: duration
    .prefault('3m')
    .describe(
      'Longest wait for the next 64 KiB of a blob, new attempts included. A slower transfer ends',
    ),
  attempts: count.default(3).describe('Attempts per request before it fails'),
  proxyNames: flag
    .default(false)
    .describe(
      'Have the proxy of `HTTPS_PROXY` and `HTTP_PROXY` look up the names of hosts. By default, Sluice looks them up and gives the proxy an address that is not private. With `true`, the rules of the proxy must keep it from private addresses',
    ),
  connections: count
    .min(1)
    .default(128)
    .describe(
      'Simultaneous connections to one host for blobs, and as many for manifests. Further transfers wait, at most `headersTimeout`',
    ),
});
