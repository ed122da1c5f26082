/** The server with the probe: from its sources, because a bundle has its own copy of the caches. */
import '../../bin/own-imports.js';
import './probe.ts';

await import('../../src/cli/main.ts');
