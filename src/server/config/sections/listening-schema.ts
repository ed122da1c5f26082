import { z } from 'zod';
import { timer } from '../units.ts';
import { count } from '../values.ts';

/** `address:port`, with an IPv6 address in brackets. */
export const address = z
  .string()
  .regex(/^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, 'expected address:port')
  .refine(text => URL.canParse(`http://${text}`), 'expected address:port');

/** Limits for the connections of clients. */
export const connections = z.strictObject({
  total: count
    .min(1)
    .default(10_000)
    .describe(
      'Open connections of clients, all together. The limit of open files may allow fewer: half of it',
    ),
  perAddress: count
    .min(1)
    .default(4000)
    .describe(
      'Open connections of one client address (a /64 of IPv6). With `trustedProxies`: its requests under way',
    ),
  requestTime: timer
    .prefault('20s')
    .describe(
      'Time for the head of a request, for a TLS handshake, and for each 64 KiB of a body other than an upload',
    ),
  stallTime: timer
    .prefault('5m')
    .describe(
      'Time in which a client must take 64 KiB of an answer, or send 64 KiB of an upload. Slower connections end',
    ),
});

/** TLS of the server itself. `tls.ts` checks which settings require each other. */
export const tls = z.strictObject({
  listen: address
    .optional()
    .describe(
      'Address and port for TLS, in addition to `listen`, which stays plain HTTP for proxies and this machine',
    ),
  certificate: z
    .string()
    .min(1)
    .optional()
    .describe('PEM file with the certificate and its chain. A new file is used within 5 s'),
  key: z.string().min(1).optional().describe('PEM file with the private key of the certificate'),
  clientCa: z
    .string()
    .min(1)
    .optional()
    .describe(
      'PEM file of the certificate authorities whose clients may connect. Default: all clients may',
    ),
  clientCertificates: z
    .enum(['required', 'optional'])
    .default('required')
    .describe(
      'With `clientCa`: whether a client needs a certificate. A certificate that is sent must be valid in both cases',
    ),
});
