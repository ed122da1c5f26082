/** /**
 * Private keys for SSH agents. A public interface without the client: the command line checks keys before it sends them,
 * and is installed without gRPC.
 */

export { readSshKey, type SshKey, SshKeyError } from './ssh-key.ts';
