import { z } from 'zod';
import { duration } from '../units.ts';
import { count, flag } from '../values.ts';

/** Timeouts, attempts and connections for other registries. */
export const upstream = z.strictObject({
  connectTimeout: duration
    .prefault('5s')
    .describe('Timeout for connecting to a registry, including TLS'),
  headersTimeout: duration
    .prefault('15s')
    .describe('Timeout for the first byte of a response of a registry'),
  idleTimeout: duration
    .prefault('30s')
    .describe('Timeout between two bytes of a response of a registry'),
  stallTimeout: duration
    .prefault('3m')
    .describe('Timeout for each 64 KiB of a blob, including new attempts'),
  trust: duration
    .prefault('0s')
    .describe(
      'How long Sluice relays a blob without hashing it, after it was whole and right from the same registry. Clients hash what they pull, too. With `0s`, every blob is hashed',
    ),
  attempts: count.default(3).describe('Attempts per request before it fails'),
  proxyNames: flag
    .default(false)
    .describe(
      'Let the proxy (`HTTPS_PROXY`, `HTTP_PROXY`) look up host names. With `false`, Sluice looks them up and gives the proxy an address that is not private. With `true`, the rules of the proxy must forbid private addresses',
    ),
  connections: count
    .min(1)
    .default(128)
    .describe(
      'Maximum number of simultaneous connections to one host for blobs, and the same number for manifests. Further transfers wait, at most `headersTimeout`',
    ),
});
