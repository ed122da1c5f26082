import type { ServerResponse } from 'node:http';

/**
 * A document of this server may load and run nothing, appears in no frame, and has an opaque
 * origin.
 */
const nothing = "default-src 'none'; frame-ancestors 'none'; sandbox";

const policyHeader = 'content-security-policy';

/**
 * Headers of every answer, whatever its type. What registries and users supply is served from the origin
 * of this server, so a browser must neither guess another type for it nor run anything in it.
 */
export const securityHeaders: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  [policyHeader]: nothing,
};

const entries = Object.entries(securityHeaders);

/** Sets the headers of every answer; called before anything else is written. */
export function setSecurityHeaders(response: ServerResponse): void {
  for (const [name, value] of entries) response.setHeader(name, value);
}

/**
 * The headers of a page of this server: it runs the scripts and has the styles that carry the nonce, and it may call
 * this server. Nothing else is loaded.
 */
export function pageHeaders(nonce: string): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return { [policyHeader]: policy.join('; '), 'referrer-policy': 'no-referrer' };
}
