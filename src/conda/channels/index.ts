/** Addresses of channels; it loads no client. */

export { channelKey, plainBase, publicBase } from './channel-address.ts';
export { hasPathToken, pathTokenIn } from './path-token.ts';
