/** Answers without a framework, and headers of all answers. */

export { endWith, rawAnswer } from './raw-answer.ts';
export { pageHeaders, securityHeaders, securityHeadersOverTls } from './security-headers.ts';
