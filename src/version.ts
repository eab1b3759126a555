import { version } from '../package.json';

/** This build's version, the same as the Python package's. */
export const VERSION: string = version;
