import { openRows } from '../../src/storage/rows/rows.ts';
import { testRows } from './conformance.ts';

testRows('SQLite', async () => openRows(':memory:'));
