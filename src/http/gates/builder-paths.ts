import { Fault } from '../../foundation/fault.ts';
import type { Check } from '../request-state.ts';

// What BuildKit's source for files and git send. Nothing in a Dockerfile changes it, and redirects keep it.
const builderAgent = /^(?:buildkit|git)\//;
const images = /^\/v2(?:[/?]|$)/;
const lockFile = /^\/v1alpha1\/builds\/[0-9a-f_]+\/(?:condalock|lock)(?:\?|$)/;

/**
 * Refuses requests of builders, except for images, tokens for these, and lock files. A builder may connect to this server
 * from the inside of its network, and ADD follows redirects: a build must not read what a proxy closes to its caller.
 */
export const keepBuildersToImages: Check = ({ req: { headers }, originalUrl }) => {
  if (!builderAgent.test(headers['user-agent'] ?? '')) return;
  if (images.test(originalUrl) || lockFile.test(originalUrl)) return;
  throw new Fault(
    'denied',
    'Builders get images and lock files from this server, and nothing else: fetch the file before the build',
    { phase: 'request' },
  );
};
