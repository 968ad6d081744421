"""The capacity model beside what was measured."""
