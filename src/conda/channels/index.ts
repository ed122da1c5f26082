/** Addresses of channels; it loads no client. */

export { channelKey, hasPathToken, pathTokenIn, plainBase, publicBase } from './channel-address.ts';
