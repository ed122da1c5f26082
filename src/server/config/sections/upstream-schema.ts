import { z } from 'zod';
import { builtIn, isAddress, isAllowable } from '../../../platform/endpoint.ts';
import { count, duration, flag, list, splitList } from '../units.ts';

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

const address = z.string().refine(isAddress, 'expected https://host[/path]');

/** `from=to,...` in the environment, a map in the file. */
const aliases = z.preprocess(
  value =>
    typeof value === 'string'
      ? Object.fromEntries(
          splitList(value).map(entry => {
            const equals = Math.max(entry.indexOf('='), 0);
            return [entry.slice(0, equals).trim(), entry.slice(equals + 1).trim()];
          }),
        )
      : value,
  z.record(
    address,
    z
      .string()
      .refine(
        text => text === builtIn || isAddress(text),
        `expected https://host[/path] or ${builtIn}`,
      ),
    'expected a map of addresses',
  ),
);

/** Settings of workflow platforms. */
export const platform = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .refine(isAllowable, 'expected https://host[/path]')
    .optional()
    .describe(
      'API address of the workflow platform for requests that do not name one. Default: the built-in one, `<url>/platform`',
    ),
  allow: list
    .pipe(z.array(z.string().refine(isAllowable, 'expected https://host[/path], or a host')))
    .default([])
    .describe(
      'Other platforms that a request may name: API addresses, or hosts (https). Sluice calls no other platform',
    ),
  aliases: aliases
    .default({})
    .describe(
      'Platforms to use in place of the addresses in requests: the address of another platform, or `built-in`. For clients that always send an address, such as `https://api.cloud.seqera.io=built-in`; in the configuration file a map',
    ),
  pairingToken: z
    .string()
    .min(16, 'expected at least 16 characters')
    .optional()
    .describe(
      'Token that a platform must send to pair with this server over a WebSocket. A paired platform can be behind a firewall, and encrypts the secrets that it returns. Default: no platform can pair',
    )
    .meta({ secret: true }),
  assumeRoles: flag
    .default(false)
    .describe(
      "Assume the AWS roles in the credentials of users. Credentials without keys use this server's own AWS identity",
    ),
  callsPerSecond: count
    .min(1)
    .default(20)
    .describe(
      'Maximum number of calls per second to a platform with one token. Further calls wait',
    ),
  callsPerHour: count
    .min(1)
    .default(72_000)
    .describe('Maximum number of calls per hour to a platform with one token. Further calls wait'),
  timeout: duration.prefault('10s').describe("Timeout for the first byte of a platform's response"),
});
