"""Parts of classifiers that build on mmpretrain; loaded when a config first names one."""

from .teacher_student_classifier import TeacherStudentClassifier
