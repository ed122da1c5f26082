import { z } from 'zod';
import { isAllowable } from '../platform/endpoint.ts';
import { duration, list } from './units.ts';
import { count, flag } from './values.ts';

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
  pairingToken: z
    .string()
    .min(16, 'expected at least 16 characters')
    .optional()
    .describe(
      'Token that a platform must send to pair with this server over a WebSocket. A paired platform can be behind a firewall, and encrypts the secrets that it returns. Without this token no platform can pair',
    ),
  assumeRoles: flag
    .default(false)
    .describe(
      "Take the AWS roles that users' credentials name, with this server's own AWS identity where the credentials contain no keys",
    ),
  callsPerSecond: count
    .min(1)
    .default(20)
    .describe('Calls per second to a platform with one token; further calls wait'),
  callsPerHour: count
    .min(1)
    .default(72_000)
    .describe('Calls per hour to a platform with one token; further calls wait'),
  timeout: duration.prefault('10s').describe("Timeout for the first byte of a platform's answer"),
});
