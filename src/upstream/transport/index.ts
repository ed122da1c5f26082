/** What a connection to another host needs: guarded addresses, redirects, retries, turns. */

export { WireError } from '../wire/http1.ts';
export { closedAddressIn, closedNetworks, lookupIn, publicAddressOf } from './address-guard.ts';
export { createNames } from './names.ts';
export { redirected, redirectedRequest } from './redirect.ts';
export { type RetryPolicy, retryAfterSeconds, withRetries } from './retry.ts';
