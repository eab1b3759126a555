import base from '../../tests/ui/playwright.config';

export default { ...base, testDir: __dirname };
