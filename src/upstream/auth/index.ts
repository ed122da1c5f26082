/** Where credentials and proxies come from; it loads no client. */

export { type CredentialSource, type Credentials, credentialKey, firstOf } from '../credentials.ts';
export { type ProxyFor, readProxies } from '../transport/proxy.ts';
export { dockerConfigCredentials } from './docker-config.ts';
