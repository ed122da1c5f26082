import { isIP } from 'node:net';
import { z } from 'zod';
import { timer } from '../units.ts';
import { count } from '../values.ts';

/** `address:port`, with an IPv6 address in brackets. */
export const address = z
  .string()
  .regex(/^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, 'expected address:port')
  .refine(text => URL.canParse(`http://${text}`), 'expected address:port');

/** A name, an address, or a network such as `10.0.0.0/16`. */
export const host = z
  .string()
  .refine(
    text => isIP(text) !== 0 || isNetwork(text) || /^\w[\w.-]{0,254}$/i.test(text),
    'expected a host without a port, such as sluice.internal, an address, or a network such as 10.0.0.0/16',
  );

function isNetwork(text: string): boolean {
  const [address = '', prefix = '', ...more] = text.split('/');
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  return more.length === 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits;
}

/** Limits for the connections of clients. */
export const connections = z.strictObject({
  total: count
    .min(1)
    .default(10_000)
    .describe(
      'Maximum number of open connections of all clients. At most half of the limit of open files',
    ),
  perAddress: count
    .min(1)
    .default(4000)
    .describe(
      'Maximum number of open connections of one client address (an IPv6 /64). With `trustedProxies`: of its requests in progress',
    ),
  requestTime: timer
    .prefault('20s')
    .describe(
      'Timeout for the head of a request, for a TLS handshake, and for each 64 KiB of a body other than an upload',
    ),
  stallTime: timer
    .prefault('5m')
    .describe(
      'Timeout for each 64 KiB of an answer that a client receives, or of an upload that it sends',
    ),
});

/** TLS of the server itself. `tls.ts` checks which settings require each other. */
export const tls = z.strictObject({
  listen: address
    .optional()
    .describe('Address and port for TLS. `listen` stays plain HTTP, for proxies and this machine'),
  certificate: z
    .string()
    .min(1)
    .optional()
    .describe('PEM file with the certificate and its chain. A changed file is used within 5 s'),
  key: z.string().min(1).optional().describe('PEM file with the private key of the certificate'),
  clientCa: z
    .string()
    .min(1)
    .optional()
    .describe(
      'PEM file of the certificate authorities of clients. Default: clients need no certificate',
    ),
  clientCertificates: z
    .enum(['required', 'optional'])
    .default('required')
    .describe(
      'With `clientCa`: whether a client must send a certificate. A certificate that a client sends must be valid in both cases',
    ),
});
