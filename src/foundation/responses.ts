/** Answers without a framework, and headers of all responses. */

export { endWith, rawResponse } from './raw-response.ts';
export { pageHeaders, securityHeaders, securityHeadersOverTls } from './security-headers.ts';
